"""Promises about what a sandbox is made of: its folders, mounts, variables, and when there is a new one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from crabpot.proof.conformance.harness import lay_out
from crabpot.proof.conformance.promises import Chapter, bad, good, same, true

if TYPE_CHECKING:
    from crabpot.proof.conformance.harness import Box, Harness

# ruff: noqa: D103  a promise's name is its sentence

promise = Chapter(sandbox_only=True)

# A write to what is mounted read-only; a kernel may check the user first, where ids are mapped or it is gVisor.
NOT_WRITABLE = ("read_only", "permission_denied")


async def _which(box: Box) -> str:
    """Return what tells one sandbox from another: its namespaces (numbers recur), and its first process's start."""
    return await box.out("readlink /proc/self/ns/mnt /proc/self/ns/pid; cut -d' ' -f22 /proc/1/stat")


def _put(folder: str, name: str, content: str) -> str:
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(content)
    if os.geteuid() == 0:
        owner = os.stat(folder)
        os.chown(path, owner.st_uid, owner.st_gid)
    return path


@promise
async def a_session_keeps_its_sandbox(harness: Harness) -> None:
    async with harness.open() as box:
        first = await _which(box)
        await box.run("echo kept > /tmp/kept")
        same("the same", await _which(box), first)
        same("its /tmp too", await box.out("cat /tmp/kept"), "kept\n")


@promise
async def a_hundred_first_calls_open_one_sandbox(harness: Harness) -> None:
    async with harness.open(limits={"pids": 200}) as box:
        seen = await asyncio.gather(*(_which(box) for _ in range(100)))
        same("sandboxes", len(set(seen)), 1)


@promise
async def a_private_workspace_outlives_its_sandbox(harness: Harness) -> None:
    async with harness.open() as box:
        _put(box.agent_folder, "agents.txt", "the agent's")
        first = await _which(box)
        await box.run("echo kept > kept; echo gone > /tmp/gone")
        bad(await box.call("read", path="agents.txt"), "not_found")
        bad(await box.call("ls", path="/agent"), "not_found")
        await box.stop()
        true("a new sandbox", await _which(box) != first)
        same("the same folder", await box.out("cat kept"), "kept\n")
        bad(await box.call("read", path="/tmp/gone"), "not_found")  # noqa: S108  inside


@promise
async def sessions_have_folders_of_their_own_unless_they_share_a_scope(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("echo mine > file")
        bad(await box.beside("agent:main:another").call("read", path="file"), "not_found")
    async with harness.open(scope="agent") as box:
        await box.run("echo ours > file")
        other = box.beside("agent:main:another")
        same("shared", await other.out("cat file"), "ours\n")
        same("one sandbox", await _which(other), await _which(box))


@promise
async def a_readable_workspace_is_seen_and_not_changed(harness: Harness) -> None:
    async with harness.open(workspace="ro") as box:
        _put(box.agent_folder, "plan.txt", "the plan")
        same("by path", good(await box.call("read", path="/agent/plan.txt"))["content"], "the plan")
        same("by exec", await box.out("cat /agent/plan.txt"), "the plan")
        bad(await box.call("write", path="/agent/plan.txt", content="changed"), *NOT_WRITABLE)
        bad(await box.call("write", path="/agent/new.txt", content="new"), *NOT_WRITABLE)
        true("nor by exec", (await box.run("echo x > /agent/new.txt")).exit_code != 0)
        good(await box.call("write", path="own.txt", content="its own folder stays writable"))
        same("on the host", os.listdir(box.agent_folder), ["plan.txt"])


@promise
async def a_writable_workspace_is_the_agents_own(harness: Harness) -> None:
    async with harness.open(workspace="rw") as box:
        good(await box.call("write", path="made.txt", content="made inside"))
        await box.run("mkdir sub; echo by exec > sub/file")
        with open(f"{box.agent_folder}/made.txt", encoding="utf-8") as stream:
            same("on the host", stream.read(), "made inside")
        owners = {os.stat(f"{box.agent_folder}/{name}").st_uid for name in (".", "made.txt", "sub/file")}
        same("one owner", owners, {os.stat(box.agent_folder).st_uid})
        bad(await box.call("ls", path="/agent"), "not_found")


@promise
async def a_workspace_that_was_made_anew_is_seen(harness: Harness) -> None:
    async with harness.open(workspace="rw") as box:
        await box.run("echo old > file")
        os.rename(box.agent_folder, f"{box.folder}/moved")
        bad(await box.run("true"), "sandbox_unavailable")
        lay_out(box.folder)
        _put(box.agent_folder, "file", "new\n")
        same("the new one", await box.out("cat file"), "new\n")
        await box.run("echo later >> file")
        with open(f"{box.agent_folder}/file", encoding="utf-8") as stream:
            same("on the host", stream.read(), "new\nlater\n")


@promise
async def binds_are_where_they_were_put(harness: Harness) -> None:
    async with harness.open() as box:
        read, write = f"{box.folder}/reference", f"{box.folder}/results"
        os.mkdir(read)
        os.mkdir(write)
        _put(read, "data.txt", "reference")
        if os.geteuid() == 0:
            os.chmod(read, 0o755)  # noqa: S103  a sandbox of root's gateway is somebody else
            os.chmod(write, 0o777)  # noqa: S103  as above
        binds = [f"{read}:/ref", f"{write}:/results:rw"]
        async with harness.open(folder=box.folder, binds=binds) as bound:
            same("read", good(await bound.call("read", path="/ref/data.txt"))["content"], "reference")
            bad(await bound.call("write", path="/ref/new", content="x"), *NOT_WRITABLE)
            good(await bound.call("write", path="/results/out.txt", content="out"))
            same("on the host", os.listdir(write), ["out.txt"])


@promise
async def the_system_is_read_only(harness: Harness) -> None:
    async with harness.open() as box:
        for path in ("/planted", "/usr/planted", "/etc/planted", "/dev/planted"):
            bad(await box.call("write", path=path, content="x"), *NOT_WRITABLE)
        true("nor by exec", (await box.run("echo x > /usr/planted || mkdir /planted")).exit_code != 0)


@promise
async def a_bind_that_is_not_there_opens_nothing(harness: Harness) -> None:
    async with harness.open(binds=["/srv/crabpot-no-such-folder:/ref"]) as box:
        bad(await box.run("echo x > ran"), "sandbox_unavailable")


@promise
async def the_environment_is_what_was_promised(harness: Harness) -> None:
    async with harness.open(env={"PROJECT": "crab pot", "LANG": "C"}) as box:
        printed = await box.out("tr '\\0' '\\n' < /proc/$$/environ")
        path = "PATH=/usr/local/bin:/usr/bin:/bin:/crabpot/fallback"
        expected = ["HOME=/workspace", "LANG=C", path, "PROJECT=crab pot", "USER=agent"]
        same("variables", sorted(printed.splitlines()), expected)
        same("home", await box.out("cd ~ && pwd"), "/workspace\n")
        same("user", await box.out("id -un"), "agent\n")


@promise
async def ordinary_programs_find_what_they_expect(harness: Harness) -> None:
    async with harness.open() as box:
        same("python", await box.out("python -c 'print(6 * 7)'"), "42\n")
        true("os-release", "ID=" in await box.out("cat /etc/os-release"))
        await box.run("echo kept > /var/tmp/kept")
        same("/var/tmp", good(await box.call("read", path="/var/tmp/kept"))["content"], "kept\n")  # noqa: S108  inside
        same("not /tmp", (await box.run("test -e /tmp/kept")).exit_code, 1)
        other = box.beside("agent:main:another")
        bad(await other.call("read", path="/var/tmp/kept"), "not_found")  # noqa: S108  inside


_COPY_AND_RUN = "for at in /tmp /var/tmp; do cp /bin/true $at/try && $at/try; echo $?; done"


@promise
async def programs_run_from_tmp_only_where_configured(harness: Harness) -> None:
    async with harness.open(tmpExec=True) as box:
        same("as configured", await box.out(_COPY_AND_RUN), "0\n0\n")


@promise
async def a_changed_spec_means_a_new_sandbox(harness: Harness) -> None:
    async with harness.open(env={"VERSION": "1"}) as box:
        await box.run("echo kept > kept")
        described = box.gateway.execution.describe(box.gateway.settings.agent("main"), box.session)
        async with harness.open(folder=box.folder, env={"VERSION": "2"}) as changed:
            again = changed.gateway.execution.describe(changed.gateway.settings.agent("main"), changed.session)
            true("another hash", described[1] != again[1])
            same("the new one", await changed.out("echo $VERSION; cat kept"), "2\nkept\n")


@promise
async def a_sandbox_that_dies_takes_its_calls_and_nothing_else(harness: Harness) -> None:
    async with harness.open() as box:
        other = box.beside("agent:main:another")
        await other.run("true")
        waiting = asyncio.create_task(box.run("sleep 600"))
        await box.run("true")
        await box.run("kill -TERM $PPID; kill -KILL $PPID; sleep 5")
        bad(await waiting, "sandbox_lost")
        same("the next call", await box.out("echo again"), "again\n")
        same("another session", await other.out("echo still"), "still\n")


@promise
async def the_agent_cannot_keep_the_next_sandbox_from_opening(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("mkdir a; chmod 000 a; rm -rf /workspace/* /workspace/.[!.]*; chmod 000 /workspace")
        await box.stop()
        result = await box.run("chmod 700 /workspace && echo opened")
        same("opened again", (result.error, result.stdout), (None, "opened\n"))


@promise
async def nothing_is_left_when_the_gateway_closes(harness: Harness) -> None:
    async with harness.open() as box:
        marker = f"left-{os.path.basename(box.folder)}"
        await box.start(f"setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' {marker}")
        async with harness.open(folder=_another(box.folder)) as other:
            await other.start(f"exec sh -c 'read _' {marker}")
        await box.gateway.close()
        for _ in range(200):
            if not _with(marker):
                return
            await asyncio.sleep(0.02)
        same("processes", _with(marker), [])


def _another(folder: str) -> str:
    os.mkdir(f"{folder}/another")
    if os.geteuid() == 0:
        os.chmod(f"{folder}/another", 0o711)  # noqa: S103  its sandboxes are somebody else, and must get through
    lay_out(f"{folder}/another")
    return f"{folder}/another"


def _with(marker: str) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as stream:
                if name.isdigit() and int(name) != os.getpid() and marker.encode() in stream.read():
                    found.append(name)
        except OSError:
            continue
    return found
