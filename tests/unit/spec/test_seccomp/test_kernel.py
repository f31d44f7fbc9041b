"""Claims tried in the kernel: the filter loads, refuses what it should, and ordinary programs do not notice it."""

from __future__ import annotations

import errno
import json
import shutil
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from crabpot.spec.seccomp.allowed import RULES
from crabpot.spec.seccomp.numbers import numbers
from tests.unit.spec.test_seccomp import confined

if TYPE_CHECKING:
    from pathlib import Path

# Arguments that make every refused call fail on its own account too: a broken filter must not hang up a
# terminal, swap a disk out or set the clock of the machine that runs the tests.
HARMLESS = (-1, -1, -1, -1, -1, -1)

x86_64_only = pytest.mark.skipif(confined.MACHINE != "x86_64", reason="these entry points are x86_64's")


def test_every_refused_call_really_is() -> None:
    table = numbers(confined.MACHINE)
    refused = sorted(RULES.refused & table.keys())
    answers = confined.probe(*((table[name], *HARMLESS) for name in refused))
    assert dict(zip(refused, answers, strict=True)) == dict.fromkeys(refused, errno.EPERM)


def test_clone3_numa_and_unknown_calls_do_not_exist() -> None:
    clone3, set_mempolicy_home_node, nothing = 435, 450, 600
    strange = [clone3, set_mempolicy_home_node, nothing, 0x3FFF_FFFF, *range(512, 548)]
    assert confined.probe(*((nr, *HARMLESS) for nr in strange)) == [errno.ENOSYS] * len(strange)


def test_io_uring_cannot_be_set_up() -> None:
    assert confined.probe((425, 8, 0)) == [errno.EPERM]


def test_other_families_and_protocols_are_not_there() -> None:
    socket = numbers(confined.MACHINE)["socket"]
    packet, alg, vsock, uevents, sctp = (17, 3, 0), (38, 5, 0), (40, 1, 0), (16, 3, 15), (2, 1, 132)
    calls = [(socket, *wanted) for wanted in (packet, alg, vsock, uevents, sctp)]
    assert confined.probe(*calls) == [errno.EAFNOSUPPORT] * 4 + [errno.EPROTONOSUPPORT]
    unix, tcp, udp6, route = (1, 1, 0), (2, 1, 6), (10, 2, 17), (16, 3, 0)
    assert confined.probe(*((socket, *wanted) for wanted in (unix, tcp, udp6, route))) == [0] * 4


def test_no_personality_makes_data_executable() -> None:
    personality, read_implies_exec = numbers(confined.MACHINE)["personality"], 0x0400000
    assert confined.probe((personality, read_implies_exec), (personality, 0xFFFF_FFFF)) == [errno.EPERM, 0]


@pytest.mark.parametrize("attack", ["inject", "new_namespaces"])
def test_disguised_terminal_injection_and_new_namespaces_are_refused(attack: str) -> None:
    answers = json.loads(confined.attack(attack).stdout)
    assert answers
    assert set(answers) == {errno.EPERM}


def test_threads_start_though_clone3_does_not_exist() -> None:
    assert json.loads(confined.attack("threads").stdout) == list(range(8))


@x86_64_only
def test_a_32_bit_call_from_64_bit_code_kills() -> None:
    if confined.attack("call_32_bit", filtered=False).returncode != 0:
        pytest.skip("this kernel has no 32-bit entry point")
    assert confined.attack("call_32_bit").returncode == -signal.SIGSYS


@x86_64_only
@pytest.mark.parametrize("attack", ["call_x32", "call_x32_in_a_thread"])
def test_an_x32_call_kills_the_whole_process(attack: str) -> None:
    assert confined.attack(attack).returncode == -signal.SIGSYS


def test_a_filter_of_ones_own_can_be_added() -> None:
    # SECCOMP_GET_ACTION_AVAIL of SECCOMP_RET_ALLOW, with a bad pointer: the call is reached.
    assert confined.probe((numbers(confined.MACHINE)["seccomp"], 2, 0, 0)) == [errno.EFAULT]


PYTHON = """
import asyncio, ctypes, multiprocessing, socket, sqlite3, ssl, subprocess, tempfile, threading
from concurrent.futures import ProcessPoolExecutor
async def main():
    child = await asyncio.create_subprocess_exec("true")
    assert await child.wait() == 0
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.close(); server.close()
asyncio.run(main())
db = sqlite3.connect("x.db"); db.execute("pragma journal_mode=wal"); db.execute("create table a(b)"); db.close()
with ProcessPoolExecutor(2) as pool: assert list(pool.map(abs, [-1, -2])) == [1, 2]
queue = multiprocessing.Queue(); queue.put(1); assert queue.get() == 1
socket.getaddrinfo("localhost", 80); socket.if_nameindex()
print("fine")
"""
GIT = """
git init -q r && cd r && git config user.email a@b.c && git config user.name a && echo a > a && git add a &&
git commit -qm first && git log --oneline && git gc -q && git clone -q . ../copy && git -C ../copy status && echo fine
"""
NODE = """
const { Worker } = require("worker_threads"), { execSync } = require("child_process"), fs = require("fs");
fs.watch(".").close(); fs.writeFileSync("f", execSync("echo fine")); new Worker("1", { eval: true });
require("http").createServer().listen(0, function () { this.close(); process.stdout.write(fs.readFileSync("f")); });
"""
C = """
#include <stdio.h>
#include <pthread.h>
void *f(void *x) { puts(x); return 0; }
int main(void) { pthread_t t; pthread_create(&t, 0, f, "fine"); return pthread_join(t, 0); }
"""
COREUTILS = """
set -e; echo fine > a; cp -a a b; mv b c; ln -s c l; ln c h; mkfifo p; touch -d yesterday c; chmod 600 c; rm l h p
dd if=/dev/zero of=z bs=1k count=8 2>/dev/null; truncate -s 1k z; sync z; df . >/dev/null; du . >/dev/null
seq 1 100000 | sort -R | sort -n -S 1M --parallel=2 | tail -1 >/dev/null; id >/dev/null; nproc >/dev/null; ls -lR >/dev/null
find . -type f -exec sha256sum {} + >/dev/null; mktemp -p . >/dev/null; stat a >/dev/null; sleep 0.01; cat a
"""
PROGRAMS = {
    "python": [sys.executable, "-c", PYTHON],
    "sh": ["sh", "-c", COREUTILS],
    "bash": ["bash", "-c", "trap : INT; cat <(echo fine); read -t 0.01 x </dev/zero; sleep 0.01 & wait"],
    "git": ["sh", "-c", GIT],
    "node": ["node", "-e", NODE],
    "npm": ["sh", "-c", "npm --version && echo fine"],
    "gcc": ["sh", "-c", "cat > h.c && gcc -O1 h.c -o h -pthread && ./h"],
    "rustc": ["sh", "-c", "echo 'fn main() { println!(\"fine\") }' > m.rs && rustc m.rs && ./m"],
    "cargo": ["sh", "-c", "cargo --version && echo fine"],
    "javac": ["sh", "-c", "javac -version && java -version && echo fine"],
    "perl": ["perl", "-e", 'if (!fork) { exec "true" } wait; print "fine"'],
    "tar": ["sh", "-c", "echo fine > a && tar czf a.tgz a --xattrs && rm a && tar xzf a.tgz && cat a"],
    "curl": ["sh", "-c", "curl --version >/dev/null && curl -s http://127.0.0.1:1/ || echo fine"],
    "ssh": ["sh", "-c", "ssh -V && ssh-keygen -q -t ed25519 -N '' -f k && echo fine"],
    "ps": ["sh", "-c", "ps aux >/dev/null && top -b -n1 >/dev/null && echo fine"],
    "jq": ["sh", "-c", 'echo \'{"a": "fine"}\' | jq -r .a'],
    "rg": ["sh", "-c", "echo fine > a && rg -N --no-filename fine"],
    "sqlite3": ["sqlite3", "x.db", "create table a(b); insert into a values('fine'); select * from a"],
    "timeout": ["timeout", "9", "echo", "fine"],
    "nice": ["nice", "-n", "5", "echo", "fine"],
    "ionice": ["ionice", "-c", "3", "echo", "fine"],
    "taskset": ["taskset", "-c", "0", "echo", "fine"],
    "chrt": ["chrt", "-b", "0", "echo", "fine"],
    "setarch": ["setarch", "-R", "echo", "fine"],
    "flock": ["flock", "lock", "echo", "fine"],
    "a terminal": [sys.executable, "-c", "import pty; pty.spawn(['echo', 'fine'])"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_ordinary_programs_do_not_notice(program: str, tmp_path: Path) -> None:
    if shutil.which(program) is None and PROGRAMS[program][0] != sys.executable:
        pytest.skip(f"{program} is not installed")
    plain, filtered = tmp_path / "plain", tmp_path / "filtered"
    plain.mkdir()
    filtered.mkdir()
    if "fine" not in confined.run(PROGRAMS[program], cwd=plain, text=C, filtered=False).stdout:
        pytest.skip(f"{program} does not run here without a filter either")
    done = confined.run(PROGRAMS[program], cwd=filtered, text=C)
    assert "fine" in done.stdout, done
    assert done.returncode == 0
