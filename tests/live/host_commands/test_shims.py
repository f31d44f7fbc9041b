"""Host commands: a name inside stands for a program of the host, each call of it agreed to, on both backends."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.app import start
from crabpot.approvals.requests import Answer
from crabpot.audit.reading import AuditReader
from crabpot.host_commands.shims import AT_ONCE
from tests.support import sshd
from tests.support.backends import engine_host
from tests.support.suites import take_over

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from crabpot.approvals.requests import Request
    from crabpot.model import ToolResult

SESSION = "agent:main:main"
QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nowhere", "PATH": os.environ["PATH"]}


class Person:
    """An operator at the desk: says yes unless told otherwise, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answers: Callable[[Request], Answer | None] = lambda _: Answer(allowed=True, by="person")
        self.before: Callable[[], None] = lambda: None

    async def ask(self, request: Request) -> Answer | None:
        self.asked.append(request)
        self.before()
        answer = self.answers(request)
        if answer is None:
            await asyncio.Event().wait()
        return answer


class Desk:
    """A gateway on a real backend, whose agent has host commands, and a person who answers."""

    def __init__(self, gateway: Any, person: Person, workspace: Path, programs: Path) -> None:
        self.gateway, self.person, self.workspace, self.programs = gateway, person, workspace, programs

    async def exec(self, command: str, **args: Any) -> ToolResult:
        result: ToolResult = await self.gateway.call(SESSION, "exec", command=command, **{"timeout": 40, **args})
        return result

    def script(self, name: str, text: str) -> None:
        made = self.programs / name
        made.write_text(text)
        made.chmod(0o755)


@pytest.fixture(params=["bubblewrap", "docker"])
def opened(request: pytest.FixtureRequest, folder: Path) -> Callable[..., Any]:
    if request.param == "docker":
        engine_host()

    @asynccontextmanager
    async def make(commands: str = '["tool", "cat", "git"]', tools: str = "", sandbox: str = "") -> AsyncIterator[Desk]:
        workspace, programs = folder / "ws", folder / "programs"
        for one in (workspace, programs):
            one.mkdir(mode=0o755, exist_ok=True)
        if os.geteuid() == 0:
            shutil.chown(workspace, 1000, 1000)
        environ = {**QUIET, "USER": "x", "DOCKER_HOST": os.environ.get("DOCKER_HOST", "")}
        take_over(str(folder / "state"))
        app = start(config=None, state=str(folder / "state"), environ=environ)
        gateway = app.gateway(f"""{{
            agents: {{defaults: {{workspace: "{workspace}", sandbox: {{
                workspace: "rw", backend: "{request.param}", hostCommands: {commands}, {sandbox} }} }} }},
            tools: {{elevated: {{path: "{programs}:/usr/bin:/bin", {tools} }} }},
        }}""")
        person = Person()
        gateway.desk.attach(person)
        try:
            yield Desk(gateway, person, workspace, programs)
        finally:
            await gateway.close()

    return make


async def test_words_folder_and_exit_code_pass_and_a_person_is_shown_them(opened: Any) -> None:
    async with opened() as desk:
        desk.script("tool", '#!/bin/sh\npwd\nprintf "%s|" "$@"\necho problem >&2\nexit 7\n')
        result = await desk.exec("mkdir -p sub && cd sub && tool 'a b' '$x' '*' ''")
        assert (result.stdout, result.stderr, result.exit_code) == (
            f"{desk.workspace}/sub\na b|$x|*||",
            "problem\n",
            7,
        )
        (asked,) = desk.person.asked
        assert asked.argv == ("tool", "a b", "$x", "*", "")
        assert (asked.pattern, asked.sender) == ("tool *", None)
        assert asked.folder.path == f"{desk.workspace}/sub"
        assert asked.binary.path == f"{desk.programs}/tool"
        await desk.gateway.audit.durable()
        told = AuditReader(str(desk.programs.parent / "state")).last(9)
        sizes = [record["sizes"] for record in told if record["kind"] == "call"]
        assert sizes == [{"stdout": len(result.stdout), "stderr": 8}] * 2


async def test_input_and_output_are_the_same_byte_for_byte_and_larger_than_any_window(opened: Any) -> None:
    async with opened() as desk:
        result = await desk.exec("head -c 3000000 /dev/urandom > x; cat < x > y; echo $?; cmp x y && echo same")
        assert result.stdout == "0\nsame\n", result


async def test_output_comes_while_the_command_runs_and_input_while_it_waits(opened: Any) -> None:
    async with opened() as desk:
        desk.script("tool", '#!/bin/sh\nwhile read line; do echo "got $line"; done\n')
        talk = "mkfifo in out; tool < in > out & exec 3> in 4< out; echo one >&3; read a <&4; echo two >&3; read b <&4; exec 3>&-; wait; echo $a $b"
        assert (await desk.exec(talk)).stdout == "got one got two\n"


async def test_signals_pass_and_end_the_waiting_for_a_person(opened: Any) -> None:
    async with opened() as desk:
        desk.script("tool", "#!/bin/sh\ntrap 'echo caught; exit 5' INT\ntouch up\nwhile :; do sleep 0.05; done\n")
        send = "tool > out & until [ -e up ]; do sleep 0.05; done; kill -INT $!; wait $!; echo $?; /usr/bin/cat out"
        assert (await desk.exec(send)).stdout == "5\ncaught\n"
        desk.person.answers = lambda _: None
        desk.person.before = (desk.workspace / "asked").touch
        (desk.workspace / "up").unlink()
        waits = (
            "tool 2> err & until [ -e asked ]; do sleep 0.05; done; kill -TERM $!; wait $!; echo $?; /usr/bin/cat err"
        )
        result = await desk.exec(waits)
        assert "interrupted before it started" in result.stdout, result
        assert not (desk.workspace / "up").exists()


async def test_what_is_denied_does_not_run_and_says_why(opened: Any) -> None:
    async with opened() as desk:
        desk.script("tool", "#!/bin/sh\ntouch ran\n")
        desk.person.answers = lambda _: Answer(allowed=False, reason="not today", by="person")
        result = await desk.exec("tool x; echo $?")
        assert result.stdout == "126\n"
        assert "not today" in result.stderr
        assert not (desk.workspace / "ran").exists()


async def test_a_name_that_is_not_listed_does_not_exist_and_cannot_be_asked_for(opened: Any) -> None:
    async with opened('["tool"]') as desk:
        desk.script("other", "#!/bin/sh\ntouch ran\n")
        assert (await desk.exec("ls /crabpot/bin; other; echo $?")).stdout == "tool\n127\n"
        python = "/usr/bin/python3"
        forged = await desk.exec(f"{python} -I -S /crabpot/runner/upcalls/shim.py other; echo $?")
        assert forged.stdout == "126\n"
        assert "no host command of this name is listed" in forged.stderr
        assert (await desk.exec("touch /crabpot/bin/new || rm /crabpot/bin/tool || echo no")).stdout == "no\n"
        assert desk.person.asked == []
        assert not (desk.workspace / "ran").exists()


JUNK = """
import socket, struct
def said(*pieces):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("/tmp/.crabpot-host")
        for piece in pieces:
            one.sendall(piece)
        one.shutdown(socket.SHUT_WR)
        return one.recv(100)
def message(kind, data): return kind + struct.pack(">I", len(data)) + data
for piece in (b"", b"X", b"A" + b"\\xff" * 4, message(b"A", b""), message(b"A", b"/"), message(b"A", b"[" * 100000),
              message(b"A", b"\\0" * 200000), message(b"I", b"x"), message(b"S", b"\\xff"), message(b"Z", b""),
              message(b"A", b"\\0" * 100000), message(b"A", b"\\0tool") + message(b"S", b"no such signal!")):
    try:
        said(piece)
    except OSError:
        pass
"""


async def test_junk_on_the_shims_socket_costs_nobody_else_anything(opened: Any) -> None:
    async with opened('["tool"]') as desk:
        desk.script("tool", "#!/bin/sh\necho fine\n")
        (desk.workspace / "junk.py").write_text(JUNK.replace("\\\\", "\\"))
        desk.person.answers = lambda _: None
        assert (await desk.exec("/usr/bin/python3 junk.py; echo $?")).stdout == "0\n"
        desk.person.answers = lambda _: Answer(allowed=True, by="person")
        assert (await desk.exec("true && tool")).stdout == "fine\n"


async def test_words_beyond_what_a_command_can_have_are_refused_and_say_so(opened: Any) -> None:
    async with opened('["tool"]') as desk:
        for size in (66_000, 70_000):
            result = await desk.exec(
                f"head -c {size} /dev/zero | tr '\\0' x > x; tool $(/usr/bin/cat x) $(/usr/bin/cat x); echo $?"
            )
            assert result.stdout == "125\n", result
            assert "too" in result.stderr
        assert desk.person.asked == []


async def test_no_more_than_a_few_wait_at_once(opened: Any) -> None:
    """Each holds its words in the gateway's memory for as long as nobody answers."""
    async with opened('["tool"]') as desk:
        desk.script("tool", "#!/bin/sh\n")
        desk.person.answers = lambda _: None
        many = f"n=0; while [ $n -lt {AT_ONCE + 3} ]; do n=$((n+1)); tool $n 2>> err & done; "
        many += "until [ $(/usr/bin/cat err | wc -l) -ge 3 ]; do sleep 0.1; done; /usr/bin/cat err; kill $(jobs -p)"
        result = await desk.exec(many)
        assert result.stdout.count("are already running; try again") == 3, result
        assert len(desk.person.asked) <= AT_ONCE


async def test_it_never_satisfies_allow_from(opened: Any) -> None:
    async with opened(tools='allowFrom: ["me"],') as desk:
        desk.script("tool", "#!/bin/sh\ntouch ran\n")
        result = await desk.gateway.call(SESSION, "exec", command="tool; echo $?; true", sender="me")
        assert result.stdout == "126\n"
        assert "allowFrom" in result.stderr
        assert desk.person.asked == []


async def test_what_a_repository_has_git_run_is_confined_and_honest_git_works(opened: Any, folder: Path) -> None:
    outside = folder / "operators"
    outside.mkdir()
    async with opened() as desk:
        (desk.workspace / "evil").write_text(f"#!/bin/sh\ntouch {desk.workspace}/ran\ntouch {outside}/mark\n")
        (desk.workspace / "evil").chmod(0o755)
        for words in (["init", "-q"], ["config", "core.fsmonitor", f"{desk.workspace}/evil"]):
            assert git(desk.workspace, *words).returncode == 0
        git(desk.workspace, "status")
        assert (outside / "mark").exists(), "the attack itself does not work"
        (outside / "mark").unlink()
        (desk.workspace / "ran").unlink()
        result = await desk.exec("git status --short")
        assert "?? evil" in result.stdout, result
        assert (desk.workspace / "ran").exists(), "it did not even run"
        assert not (outside / "mark").exists()
        assert any("hooks" in line for line in desk.person.asked[0].executes)


async def test_over_a_real_sshd_a_host_command_runs_as_another_user(opened: Any) -> None:
    with sshd.running() as server:
        hop = f'hostUser: "{sshd.USER}:{server.port}", sshKey: "{server.key}",'
        async with opened(sandbox=hop) as desk:
            server.note(desk.programs.parent / "state")
            desk.workspace.chmod(0o777)
            desk.script("tool", '#!/bin/sh\nid -un\npwd\nprintf "%s|" "$@"\nexit 7\n')
            result = await desk.exec("mkdir -p 'a b' && cd 'a b' && tool \"it's\" '$x'; echo $?")
            assert result.stdout == f"{sshd.USER}\n{desk.workspace}/a b\nit's|$x|7\n", result
            assert f"all of it as the user {sshd.USER}, over ssh to this machine" in desk.person.asked[0].executes
            echoed = await desk.exec("head -c 1000000 /dev/urandom > x; cat < x > y; cmp x y && echo same")
            assert echoed.stdout == "same\n", echoed
            assert "No such file" in (await desk.exec(f"/bin/ls {server.key}")).stderr


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-c", "safe.directory=*", *words], cwd=folder, env=QUIET, check=False, timeout=20)


async def test_what_changes_the_folder_between_two_turns_ends_the_command(opened: Any) -> None:
    """A racing agent: while a shim's command runs, its sandbox moves only when the command does not, and is seen."""
    async with opened('["make"]') as desk:
        # It waits for its input, so that the sandbox gets its turns.
        desk.script("make", "#!/bin/sh\ntouch up\nread line\n")
        race = (
            "echo all: > Makefile; mkfifo in; make < in > out 2> err & exec 3> in; until [ -e up ]; do sleep 0.05; done; "
            "echo evil: >> Makefile; wait $!; echo $?; /usr/bin/cat err"
        )
        result = await desk.exec(race)
        assert "changed; ask again" in result.stdout, result
        assert result.stdout.startswith("125\n")


async def test_nothing_inside_moves_while_a_command_has_its_turn(opened: Any) -> None:
    async with opened() as desk:
        # Looks at a counter of the sandbox's twice, in one go: it must not have moved.
        desk.script(
            "tool",
            "#!/bin/sh\nuntil [ -s n ]; do :; done\na=$(cat n); i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; b=$(cat n); echo $a $b\n",
        )
        counting = "i=0; (while :; do i=$((i+1)); echo $i > n.new; mv n.new n; done) & tool; kill $!"
        moved = (await desk.exec(counting)).stdout.split()
        assert len(moved) == 2
        assert moved[0] == moved[1]


async def test_a_flood_of_requests_is_looked_into_by_a_few_processes_at_a_time(opened: Any, folder: Path) -> None:
    log = folder / "log"
    async with opened() as desk:
        desk.script("git", f"#!/bin/sh\necho + >> {log}\nsleep 0.05\necho - >> {log}\nexit 1\n")
        await desk.exec("for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do git status & done; wait")
    running = [1 if line == "+" else -1 for line in log.read_text().split()]
    assert running.count(1) >= 20
    assert max(sum(running[:end]) for end in range(len(running) + 1)) <= 4


# It writes all the time while the folder is swapped, and long after that.
WRITES = """#!/bin/sh
mkdir -p -m 777 out/deep
n=0 after=5000
while [ $n -lt 200000 ] && [ $after -gt 0 ]; do
    n=$((n+1)); echo > out/$n; echo > out/deep/$n
    [ ! -e swapped ] || after=$((after-1))
done
"""
SWAPS = {
    "for a link": "mv out old; ln -s {outside} out",
    "for a link, and hangs up": "mv out old; ln -s {outside} out; kill -9 $tool",
    "for one that has a link in it": "mv out old; mkdir new; ln -s {outside} new/deep; mv new out",
}


@pytest.mark.parametrize("how", SWAPS)
async def test_a_folder_that_is_swapped_while_a_command_writes_into_it_leads_nowhere(
    opened: Any, folder: Path, how: str
) -> None:
    outside = folder / "operators"
    outside.mkdir()
    async with opened() as desk:
        desk.script("tool", WRITES)
        swap = SWAPS[how].format(outside=outside)
        await desk.exec(f"tool & tool=$!; until [ -e out/deep/9 ]; do :; done; {swap}; : > swapped; wait")
        assert (desk.workspace / "out" / "deep").is_symlink() or (desk.workspace / "out").is_symlink()
    assert list(outside.iterdir()) == []


async def test_all_of_it_is_in_the_audit_log(opened: Any, folder: Path) -> None:
    async with opened() as desk:
        desk.script("tool", "#!/bin/sh\n")
        assert (await desk.exec("true && tool a")).success
    kinds = [record["kind"] for record in AuditReader(str(folder / "state")).all() if record.get("kind") != "open"]
    assert kinds == ["request", "answer", "intent", "call", "call"]
