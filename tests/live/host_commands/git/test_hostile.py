"""What an agent leaves in its repository, or says in its runner's place, to have the host do something else."""

from __future__ import annotations

import asyncio
import os
import resource
from collections import deque
from contextlib import suppress
from itertools import repeat
from typing import Any

import pytest

from crabpot.errors import HostRefused, SandboxLost
from crabpot.host_commands.git.gate import Gate
from tests.support.places import Server, certified, serving
from tests.support.runners import Double, connected
from tests.support.waiting import until

TIP = "1" * 40


async def test_what_the_repository_would_add_to_a_push_is_not_added(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        elsewhere = pot.remote("elsewhere.git")
        await pot.sows(f"&& git remote add origin {remote} && git branch secret && git tag t")
        await pot.sh(
            "git config remote.origin.push '+refs/heads/secret:refs/heads/secret'; git config push.followTags true;"
            "git config push.pushOption x; git config push.default matching; mkdir -p .git/remotes .git/branches;"
            f"printf 'URL: {elsewhere}\\nPush: refs/heads/secret\\n' > .git/remotes/other;"
            f"echo {elsewhere} > .git/branches/other;"
            f"git config url.{elsewhere}.pushInsteadOf {remote}; git config url.{elsewhere}.insteadOf {remote};"
            "git config remote.origin.mirror true; git config push.gpgSign true; git config gpg.program /workspace/evil"
        )
        await pot.done("push", "origin")
        assert git("for-each-ref", "--format=%(refname)", cwd=remote) == "refs/heads/main"
        assert not git("for-each-ref", cwd=elsewhere)
        # A remote that only a legacy file knows is a path, and none that is there.
        with pytest.raises(HostRefused, match="a sandbox may write"):
            await pot.prepare("push", "other", "main")


async def test_nothing_of_the_repository_runs_on_the_host(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, trace = pot.remote(), pot.folder / "trace"
        trace.mkdir()
        trace.chmod(0o777)
        await pot.sows(f"&& git remote add origin {remote}")
        # Inside there is no such folder: whatever writes there ran on the host.
        evil = f"#!/bin/sh\\ntouch {trace}/$(basename $0)\\n"
        await pot.sh(
            "mkdir evil hooks && for name in ssh fsmonitor askpass credential receive upload pager; do"
            f" printf '{evil}' > evil/$name; done; for name in pre-push reference-transaction post-update update"
            f" pre-receive post-receive; do printf '{evil}' > hooks/$name; cp hooks/$name .git/hooks/; done;"
            "chmod +x evil/* hooks/* .git/hooks/*;"
            f"git config core.hooksPath {pot.workspace}/hooks; git config core.sshCommand {pot.workspace}/evil/ssh;"
            f"git config core.fsmonitor {pot.workspace}/evil/fsmonitor; git config core.askPass {pot.workspace}/evil/askpass;"
            f"git config remote.origin.receivepack {pot.workspace}/evil/receive;"
            f"git config remote.origin.uploadpack {pot.workspace}/evil/upload; git config core.pager {pot.workspace}/evil/pager;"
            f"git config credential.helper {pot.workspace}/evil/credential"
        )
        await pot.done("push", "origin", "main")
        await pot.done("fetch", "origin")
        await pot.done("pull", "origin", "main")
        await pot.done("ls-remote", "origin")
        await pot.sh(f"git config url.ext::{pot.workspace}/evil/ssh.insteadOf {remote}")
        await pot.done("push", "origin", "main")
        assert os.listdir(trace) == []


@pytest.mark.parametrize(
    ("what", "tree"),
    [
        ("hasDotgit", "100644 blob $b\\t.git"),
        ("hasDotgit", "100644 blob $b\\t.GIT"),
        ("hasDotdot", "040000 tree $t\\t.."),
        ("hasDot", "040000 tree $t\\t."),
        ("gitmodulesSymlink", "120000 blob $b\\t.gitmodules"),
        ("fullPathname", "100644 blob $b\\ta/b"),
    ],
)
async def test_objects_that_attack_a_git_folder_do_not_leave(open_pot: Any, git: Any, what: str, tree: str) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote}")
        name = tree.split("\\t")[1]
        # Written as an object of its own: git's own mktree would refuse most of them.
        await pot.sh(
            "b=$(echo x | git hash-object -w --stdin); t=$(git rev-parse HEAD^{tree});"
            f"python3 - $b $t {name} '{tree.split(' ', maxsplit=1)[0].lstrip('0')}' <<'END' | git hash-object -t tree -w --stdin --literally > made\n"
            "import sys; blob, tree, name, mode = sys.argv[1:]\n"
            "held = tree if mode == '40000' else blob\n"
            "sys.stdout.buffer.write(mode.encode() + b' ' + name.encode() + b'\\0' + bytes.fromhex(held))\nEND\n"
            "git update-ref refs/heads/bad $(echo m | git commit-tree $(cat made))"
        )
        with pytest.raises(HostRefused, match=what):
            await pot.prepare("push", "origin", "bad")
        assert not git("for-each-ref", cwd=remote)
        await pot.done("push", "origin", "main")


async def test_histories_with_old_mistakes_are_pushed(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote}")
        await pot.sh(
            "t=$(git rev-parse HEAD^{tree}); printf 'tree %s\\nauthor A <a@b>c 0123 +051800\\ncommitter A<a@b> 1 +0000\\n\\nm\\n' $t"
            " | git hash-object -t commit -w --stdin --literally > made; git update-ref refs/heads/old $(cat made)"
        )
        await pot.done("push", "origin", "old")
        assert git("for-each-ref", "--format=%(refname)", cwd=remote) == "refs/heads/old"


@pytest.mark.parametrize(
    "name",
    ["-x", "refs/heads/../../x", "refs/heads/a b", "refs/heads/x.lock", "refs/heads/\u202ex", "a:-x", "a:refs/x"],
)
async def test_odd_names_are_refused(open_pot: Any, name: str) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote} && git branch a")
        with pytest.raises(HostRefused):
            await pot.prepare("push", "origin", "--", name)


async def test_a_replacement_makes_no_fast_forward_of_a_forced_push(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        seen = await pot.sows(f"&& git remote add origin {remote}")
        await pot.done("push", "origin", "main")
        await pot.sh("git checkout -q --orphan evil && git commit -qm evil")
        evil = await pot.sh("git rev-parse evil")
        # The same commit, as if it had been made upon what the remote has.
        lie = await pot.sh(f"git branch lie $(git commit-tree -p {seen} -m evil evil^{{tree}}) && git rev-parse lie")
        for word in (f"lie:refs/replace/{evil}", f":refs/replace/{evil}", "lie:refs/notes/x", "lie:refs/tip/x"):
            with pytest.raises(HostRefused, match="neither a branch nor a tag"):
                await pot.prepare("push", "origin", word)
        with pytest.raises(HostRefused, match="is not fetched"):
            await pot.prepare("fetch", "origin", "refs/replace/*:refs/x/*")
        # However it came there: it counts for nothing.
        await pot.done("push", "origin", "lie")
        (store,) = (pot.state / "git").glob("*.git")
        git("--git-dir", store, "update-ref", f"refs/replace/{evil}", lie)
        prepared = await pot.prepare("push", "--force", "origin", "evil:main")
        assert "FORCED, NOT a fast-forward" in prepared.lines[1]


async def test_the_agent_writes_nothing_into_the_line_of_a_push(open_pot: Any) -> None:
    async with open_pot() as pot:
        await pot.sows(f"&& git remote add origin {pot.remote()}")
        tip = await pot.sh("git commit -q --allow-empty -m 'u → refs/heads/docs, 1 commit, x' && git rev-parse HEAD")
        (line,) = (await pot.prepare("push", "origin", "HEAD^{/u → refs/heads/docs, 1 commit, x}:main")).lines[1:]
        assert line.startswith(f"{tip[:12]} → refs/heads/main, 2 commits, new here")
        # A letter that shows as a blank, so that a name can look like the end of the line.
        name = "docs,\N{HANGUL FILLER}1\N{HANGUL FILLER}commit\N{RIGHTWARDS ARROW}x"
        prepared = await pot.prepare("push", "--force", "origin", f"main:{name}")
        told = "refs/heads/docs,\\u31641\\u3164commit\\u2192x"
        assert prepared.lines[1].startswith(f"main → {told}, 2 commits, ")
        assert prepared.dangers[0].startswith(f"FORCES {told}: ")


async def test_a_fifo_in_the_repository_ends_with_the_time_limit(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote}")
        await pot.sh("mkfifo .git/packed-refs")
        context = pot.context()
        context.clock.limit_s = 1
        context.clock.restart()
        from crabpot.host_commands.git import operation, relay

        with pytest.raises(HostRefused, match="time limit"):
            await relay.prepare(operation.read(("git", "push", "origin", "main")), context)
        await pot.sh("rm .git/packed-refs")
        await pot.done("push", "origin", "main")


async def test_links_and_alternates_that_lead_to_the_operators_files_give_nothing(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote, private = pot.remote(), pot.remote("private.git")
        work = pot.folder / "operator" / "w"
        git("init", "-q", "-b", "main", work)
        (work / "secret").write_text("secret\n")
        git("add", "secret", cwd=work)
        git("commit", "-qm", "secret", cwd=work)
        git("push", "-q", private, "main", cwd=work)
        secret = git("rev-parse", "main", cwd=private)
        await pot.sows(f"&& git remote add origin {remote}")
        await pot.sh(f"echo {private}/objects > .git/objects/info/alternates; echo {secret} > .git/refs/heads/stolen")
        with pytest.raises(HostRefused):
            await pot.prepare("push", "origin", "stolen")
        await pot.sh(
            f"rm -rf .git/objects; ln -s {private}/objects .git/objects; ln -sf {private}/refs/heads/main .git/refs/heads/link"
        )
        with pytest.raises(HostRefused):
            await pot.prepare("push", "origin", "main")
        assert not git("for-each-ref", cwd=remote)


async def test_a_million_refs_cost_the_gateway_nothing(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        first = await pot.sows(f"&& git remote add origin {remote}")
        await pot.sh(
            f'awk \'BEGIN {{ print "# pack-refs with: peeled fully-peeled sorted "; for (i = 0; i < 1000000; i++)'
            f' printf "{first} refs/tags/t%07d\\n", i }}\' > .git/packed-refs'
        )
        with pytest.raises(HostRefused, match="more than 1000 tags"):
            await pot.prepare("push", "--tags", "origin")
        await pot.done("push", "origin", "main")
        assert git("for-each-ref", "--format=%(refname)", cwd=remote) == "refs/heads/main"


@pytest.mark.parametrize("entries", [30_000, 300_000])
async def test_a_long_configuration_is_refused_at_once(open_pot: Any, entries: int) -> None:
    """It is read on the gateway's loop before anybody is asked: minutes of it were minutes for every agent."""
    async with open_pot() as pot:
        await pot.sows(f"&& git remote add origin {pot.remote()}")
        await pot.sh(f"(echo '[pull]'; yes ff | head -n {entries}) >> .git/config")
        with pytest.raises(HostRefused, match=r"more than (5000 entries|262144 bytes)"):
            await pot.prepare("push", "origin", "main")


async def test_a_remote_in_a_folder_that_a_sandbox_writes_is_refused(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows("&& git init -q --bare bare.git && git remote add origin bare.git")
        (remote.parent / "link").symlink_to(pot.workspace)
        for url in (
            "bare.git",
            "./bare",
            str(pot.workspace),
            f"file://{pot.workspace}/bare.git",
            str(pot.folder),
            f"{remote.parent}/link/bare.git",
            f"{pot.state}/sandboxes/x",
        ):
            with pytest.raises(HostRefused, match="a sandbox may write"):
                await pot.prepare("push", url, "main")


async def test_what_was_last_seen_cannot_be_forged_by_a_push_to_it(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        await pot.sows(f"&& git remote add origin {pot.remote()}")
        await pot.done("push", "origin", "main")
        (store,) = (pot.state / "git").glob("*.git")
        (pot.folder / ".password-store").mkdir()
        for words in (("push", "-f", str(store), "main"), ("clone", f"{pot.folder}/.password-store")):
            with pytest.raises(HostRefused, match="Crabpot's own"):
                await pot.prepare(*words)


async def test_the_operators_own_rewriting_is_shown_and_judged(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        config = pot.folder / "operator.gitconfig"
        config.write_text(
            f'[url "{remote}"]\n\tinsteadOf = https://example.com/x\n[url "{pot.workspace}"]\n\tpushInsteadOf = https://example.com/y\n'
        )
        pot.env = {**pot.env, "GIT_CONFIG_GLOBAL": str(config)}
        await pot.sows()
        prepared = await pot.prepare("push", "https://example.com/x", "main")
        assert prepared.dangers[-1] == f"your git configuration turns https://example.com/x into {remote}"
        assert (await prepared.run(timeout_s=60, output_limit=1 << 16)).success
        with pytest.raises(HostRefused, match="a sandbox may write"):
            await pot.prepare("push", "https://example.com/y", "main")


class Front(Server):
    """An https server that redirects, or asks for a password."""

    def __init__(self, to: str | None = None) -> None:
        super().__init__()
        self._to = to

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        path = head.split(b" ")[1].decode()
        says = "401 x\r\nWWW-Authenticate: Basic" if self._to is None else f"302 x\r\nLocation: {self._to}{path}"
        writer.write(f"HTTP/1.1 {says}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()


@pytest.mark.parametrize("words", [("push", "main"), ("fetch", "main"), ("ls-remote",)])
async def test_a_server_redirects_no_request_of_the_operators_to_another(open_pot: Any, words: tuple[str, ...]) -> None:
    """The URL that was shown is the agent's own server; the operator's password for another one must not go there."""
    async with open_pot() as pot:
        context = certified(pot.folder, "localhost")
        (pot.folder / "operator.gitconfig").write_text(
            f"[http]\n\tsslCAInfo = {pot.folder}/cert.pem\n"
            '[credential]\n\thelper = "!f() { echo username=op; echo password=secret; }; f"\n'
        )
        pot.env = {**pot.env, "GIT_CONFIG_GLOBAL": str(pot.folder / "operator.gitconfig")}
        await pot.sows()
        async with (
            serving(Front(), context) as private,
            serving(Front(f"https://localhost:{private.port}"), context) as own,
        ):
            reply = await pot.git(words[0], f"https://localhost:{own.port}/x", *words[1:])
            assert not reply.success
            assert own.heads
            assert not private.heads
            # The control: asked directly, the other one is given the password.
            await pot.git(words[0], f"https://localhost:{private.port}/x", *words[1:])
            assert any(b"Authorization: Basic" in head for head in private.heads)


async def test_a_pack_that_is_larger_than_the_disk_limit_is_refused(open_pot: Any, git: Any) -> None:
    from crabpot.host_commands.git.outside import Bounds

    async with open_pot() as pot:
        remote = pot.remote()
        pot.bounds = Bounds(disk=1 << 20, memory=2 << 30)
        await pot.sows(f"&& git remote add origin {remote}")
        await pot.sh("head -c 3000000 /dev/urandom > big && git add big && git commit -qm big")
        with pytest.raises(HostRefused, match="nothing left the sandbox"):
            await pot.prepare("push", "origin", "main")
        assert not git("for-each-ref", cwd=remote)


# Two objects in 17 KiB: a file of 16 MiB, and one that is twenty times the first.
BOMB = r"""
import hashlib, struct, sys, zlib
size, times = 0xFFFFFF, 20
base = bytes(size)
def number(value):
    said = b""
    while value > 127:
        said, value = said + bytes([value & 127 | 128]), value >> 7
    return said + bytes([value])
def header(kind, length):
    first, rest = kind << 4 | length & 15, length >> 4
    return bytes([first | 128]) + number(rest) if rest else bytes([first])
head = hashlib.sha1(b"blob %d\0" % size + base).digest()
whole = hashlib.sha1(b"blob %d\0" % (size * times))
for _ in range(times):
    whole.update(base)
delta = number(size) + number(size * times) + b"\xf0\xff\xff\xff" * times
pack = b"PACK" + struct.pack(">II", 2, 2) + header(3, size) + zlib.compress(base)
pack += header(7, len(delta)) + head + zlib.compress(delta)
open("bomb.pack", "wb").write(pack + hashlib.sha1(pack).digest())
print(head.hex(), whole.hexdigest())
"""


async def test_a_small_pack_that_unfolds_beyond_the_memory_limit_is_refused(open_pot: Any, git: Any) -> None:
    from crabpot.host_commands.git.outside import Bounds

    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote}")
        (pot.workspace / "bomb.py").write_text(BOMB)
        await pot.sh(
            "set -- $(python3 bomb.py) && git index-pack --stdin < bomb.pack > /dev/null"
            ' && tree=$(printf "100644 blob %s\\t%s\\n" $1 base $2 bomb | git mktree)'
            " && git update-ref refs/heads/bomb $(git commit-tree -m bomb $tree)"
        )
        assert (pot.workspace / "bomb.pack").stat().st_size < 1 << 15
        pot.bounds = Bounds(disk=1 << 30, memory=256 << 20)
        with pytest.raises(HostRefused, match="nothing left the sandbox"):
            await pot.prepare("push", "origin", "bomb")
        await pot.done("push", "origin", "main")
        assert git("for-each-ref", "--format=%(refname)", cwd=remote) == "refs/heads/main"


async def test_what_a_remote_sends_beyond_the_disk_limit_is_cut_off_and_counted(open_pot: Any, git: Any) -> None:
    """One large file is cut off by the kernel; several fetches are counted together."""
    from crabpot.host_commands.git.outside import Bounds

    async with open_pot() as pot:
        remote, work = pot.remote(), pot.folder / "operator" / "work"
        git("clone", "-q", remote, work)
        pot.bounds = Bounds(disk=1 << 20, memory=2 << 30)

        async def refused(*words: str) -> None:
            with pytest.raises(HostRefused, match=r"disk limit of 1048576 bytes"):
                await pot.git(*words)
            left = [file for file in (pot.state / "git").rglob("*") if file.is_file() and file.suffix != ".lock"]
            assert left == []

        def grow(size: int) -> None:
            (work / "f").write_bytes(os.urandom(size))
            git("add", "f", cwd=work)
            git("commit", "-qm", "more", cwd=work)
            git("push", "-q", "origin", "main", cwd=work)

        grow(1 << 19)
        await pot.done("clone", str(remote), "r")
        grow(1 << 19)
        await refused("-C", "r", "fetch")
        grow(12 << 20)
        await refused("clone", str(remote), "other")


async def test_a_caller_that_leaves_leaves_nothing_running(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        (remote / "hooks").mkdir(exist_ok=True)
        hook = remote / "hooks" / "pre-receive"
        hook.write_text(f"#!/bin/sh\necho $$ > {remote}/pid.new\nmv {remote}/pid.new {remote}/pid\nexec sleep 1000\n")
        hook.chmod(0o755)
        await pot.sows(f"&& git remote add origin {remote}")
        prepared = await pot.prepare("push", "origin", "main")
        task = asyncio.create_task(prepared.run(timeout_s=60, output_limit=1 << 16))
        await until((remote / "pid").exists)
        pid = int((remote / "pid").read_text())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not os.path.exists(f"/proc/{pid}"))
        assert not git("for-each-ref", cwd=remote)
        with pytest.raises(HostRefused, match="time limit"):
            await prepared.run(timeout_s=1, output_limit=1 << 16)
        assert not git("for-each-ref", cwd=remote)


def pkt(line: bytes) -> bytes:
    return b"%04x" % (len(line) + 4) + line


@pytest.mark.parametrize(
    "line",
    [
        f"{'0' * 40} {TIP} refs/heads/main",
        f"{'0' * 40} {'2' * 40} refs/tip/{TIP}",
        f"{'0' * 40} {'2' * 40} refs/tip/{'2' * 40}",
        f"{TIP} {'0' * 40} refs/tip/{TIP}",
        "push-cert x",
        "",
    ],
)
def test_no_ref_but_those_that_were_asked_for_is_let_through(line: str) -> None:
    gate = Gate([TIP])
    good = pkt(f"{'0' * 40} {TIP} refs/tip/{TIP}\0 report-status".encode())
    assert gate.pass_on(good[:7]) == b""
    assert gate.pass_on(good[7:]) == b""
    with pytest.raises(HostRefused):
        gate.pass_on(pkt(line.encode()) + b"0000")


def test_the_gate_opens_once_and_gives_everything() -> None:
    gate = Gate([TIP])
    said = pkt(f"shallow {TIP}".encode()) + pkt(f"{'0' * 40} {TIP} refs/tip/{TIP}\0caps\n".encode()) + b"0000PACKxx"
    assert b"".join(gate.pass_on(bytes([byte])) for byte in said) == said
    with pytest.raises(HostRefused):
        Gate([TIP]).pass_on(b"zzzz")
    endless = Gate([TIP])
    many = pkt(f"shallow {TIP}".encode()) * 100
    with pytest.raises(HostRefused, match="more than"):
        deque(map(endless.pass_on, repeat(many, 2000)), maxlen=0)


LIES: dict[str, tuple[str, str]] = {
    "an id that is none": ("rev-parse", "--receive-pack=evil"),
    "an id of another kind": ("rev-parse", "HEAD"),
    "an endless answer": ("rev-parse", "x" * (1 << 20)),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_lying_inside_is_refused(open_pot: Any, lie: str) -> None:
    """A double in the runner's place: it answers what the agent would like the gateway to believe."""
    _, text = LIES[lie]

    def lying(peer: Any) -> None:
        peer.greet()
        while True:
            header, _ = peer.take()
            words = header["args"]["argv"]
            out = text if "--verify" in words else "false" if "--is-shallow-repository" in words else ""
            if "config" in words:
                out = "remote.origin.url\n/nowhere\0"
            if "symbolic-ref" in words:
                out = "refs/heads/main"
            for _ in range(40 if len(out) > 1000 else 1):
                # No acknowledgement is waited for: it floods.
                peer.send({"op": "output", "id": header["id"], "stream": "stdout"}, out.encode()[: 1 << 16])
            peer.send({"id": header["id"], "success": True, "stdout": "", "stderr": "", "exit_code": 0})

    double = Double(lying)
    async with connected(double) as wire, open_pot() as real:
        remote = real.remote()
        real.wire = wire
        with pytest.raises((HostRefused, SandboxLost)):
            await real.prepare("push", str(remote), "main")


async def test_alternates_that_never_end_cost_the_gateway_nothing(open_pot: Any, git: Any) -> None:
    async with open_pot() as pot:
        remote = pot.remote()
        await pot.sows(f"&& git remote add origin {remote}")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await pot.sh("truncate -s 256M .git/objects/info/alternates")
        with suppress(HostRefused):
            await pot.prepare("push", "origin", "main")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024
        await pot.sh("rm .git/objects/info/alternates; mkfifo .git/objects/info/alternates")
        waiting = asyncio.create_task(pot.prepare("push", "origin", "main"))
        # What reads it waits inside: the gateway's own threads have nothing to do with it.
        await asyncio.wait_for(asyncio.gather(*(asyncio.to_thread(os.getpid) for _ in range(64))), 30)
        await pot.sh("echo > .git/objects/info/alternates & rm .git/objects/info/alternates")
        with suppress(HostRefused):
            await asyncio.wait_for(waiting, 60)
        await pot.done("push", "origin", "main")
