"""Real containers: what is inside them, who they run as, which limits strike, and that nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import pytest

from crabpot.backends.docker import inspection
from crabpot.errors import SandboxLost
from crabpot.settings import MIB, Docker, Limits, Size
from crabpot.spec.network import NetworkSpec
from crabpot.spec.seccomp.allowed import RULES
from crabpot.spec.seccomp.profile import docker_profile
from crabpot.spec.spec import Mount, User
from tests.live.docker.live import backend, derived_image, nothing_left, opened, spec_in

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.backends.docker.engine import Engine

LANDLOCK = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(444, None, 0, 1)
print(os.strerror(ctypes.get_errno()))
"""
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")


async def test_nobody_but_the_runner_holds_the_wire_where_there_is_no_landlock(engine: Engine, tmp_path: Path) -> None:
    """An init before the runner has the same pipes, and is dumpable: who writes to its descriptor owns the wire."""
    file = tmp_path / "profile.json"
    without = RULES.refusing("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
    file.write_text(json.dumps(docker_profile(rules=without)))
    async with opened(engine, tmp_path, docker=Docker(seccomp=str(file))) as inside:
        assert "not permitted" in (await inside.run(f"python3 -c '{LANDLOCK}'")).stdout, "there is a second wall"
        said = await inside.out(
            "for pid in $(ls /proc | grep -x '[0-9]*'); do for fd in 0 1 2 3 4 5 6 7; do "
            "[ $pid = 1 -o $pid = $PPID ] && true 2>/dev/null >> /proc/$pid/fd/$fd && echo wrote $pid $fd; done; done; "
            "ls -l /proc/1/fd /proc/$PPID/fd"
        )
        assert "wrote" not in said
        assert said.count("ermission denied") >= 2
        assert (await inside.run("true")).success


async def test_what_is_left_of_commands_is_collected(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path) as inside:
        await inside.run("for n in 1 2 3 4 5; do (setsid sh -c 'exit 3' &); done")
        listed = await inside.out("grep -l '^State:.Z' /proc/[0-9]*/status; echo; cat /proc/1/comm")
        assert listed == "\npython3\n"


async def test_a_container_is_what_the_hardening_guide_asks_for(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path) as inside:
        said = await engine.get(f"/containers/{inside.box.container}/json")
        host = said["HostConfig"]
        baseline = (
            said["Config"]["User"].split(":")[0] != "0",
            host["ReadonlyRootfs"],
            host["CapDrop"],
            host["PidsLimit"],
        )
        assert baseline == (True, True, ["ALL"], 100)
        status = await inside.out("cat /proc/self/status")
        assert [line.split()[1] for line in status.splitlines() if line.startswith("Cap")] == ["0" * 16] * 5
        assert "NoNewPrivs:\t1" in status
        assert "Seccomp:\t2" in status
        assert (await inside.out("whoami; echo ~; pwd")).split() == ["agent", "/workspace", "/workspace"]
        assert sorted((await inside.out("env")).split()) == [
            "HOME=/workspace",
            "LANG=C.UTF-8",
            "PATH=/usr/local/bin:/usr/bin:/bin:/crabpot/fallback",
            "PWD=/workspace",
            "USER=agent",
        ]
        with open(f"/proc/{said['State']['Pid']}/environ") as file:
            given = {line.partition("=")[0] for line in file.read().split("\0") if line}
        assert given == {"PATH", "HOSTNAME", "HOME"}
        assert "ermission denied" in await inside.out("cat /proc/1/environ")
        assert "Read-only" in await inside.out("touch /x")
        assert "Read-only" in await inside.out("touch /dev/x")
        assert "ermission denied" in await inside.out("cp /bin/true /tmp/t; /tmp/t")
        assert await inside.out("echo x > /dev/null; python3 -c 'import os; os.openpty(); print(1)'") == "1\n"
        assert [line.split(":")[0].strip() for line in (await inside.out("cat /proc/net/dev")).splitlines()[2:]] == [
            "lo"
        ]
        assert await inside.out("ls /var/run/docker.sock /run/docker.sock 2>/dev/null") == ""


@AS_ROOT
async def test_files_in_a_rw_workspace_belong_to_its_owner(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    os.chown(folder, 1234, 1235)
    async with opened(engine, tmp_path, workspace=str(folder), private=False) as inside:
        assert (await inside.out("id -u; id -g; whoami; touch by-shell")).split() == ["1234", "1235", "agent"]
        assert (await inside.wire.call("write", {"path": "by-tool", "content": "x"}, timeout_s=10)).success
    for name in ("by-shell", "by-tool"):
        found = (folder / name).stat()
        assert (found.st_uid, found.st_gid) == (1234, 1235)


async def test_binds_are_where_they_were_put(engine: Engine, tmp_path: Path) -> None:
    for name, mode in (("ref", 0o755), ("out", 0o777), ("agent", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    (tmp_path / "ref/file").write_text("reference")
    mounts = (
        Mount(source=str(tmp_path / "ref"), target="/ref", access="ro"),
        Mount(source=str(tmp_path / "out"), target="/results", access="rw"),
    )
    async with opened(engine, tmp_path, mounts=mounts, agent_workspace=str(tmp_path / "agent")) as inside:
        assert await inside.out("cat /ref/file; echo made > /results/file") == "reference"
        assert "Read-only" in await inside.out("touch /ref/x")
        assert "Read-only" in await inside.out("touch /agent/x")
    assert (tmp_path / "out/file").read_text() == "made\n"


@AS_ROOT
async def test_what_was_mounted_is_compared_with_what_was_checked(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path) as inside:
        pid = (await engine.get(f"/containers/{inside.box.container}/json"))["State"]["Pid"]

        class Other:
            path, target, device, inode = "/srv/x", "/workspace", 1, 2

        assert inspection.problems(pid, None, []) == []
        assert inspection.problems(pid, 4242, []) == ["Uid"]
        assert inspection.problems(pid, None, [Other()]) == ["/srv/x was replaced while it was mounted"]  # type: ignore[list-item]
        assert set(inspection.problems(os.getpid(), None, [])) >= {"CapBnd", "Seccomp", "NoNewPrivs", "Uid"}


async def test_setup_runs_before_the_first_call_as_the_same_user(engine: Engine, tmp_path: Path) -> None:
    setup = "id -u > /tmp/who; seq 100000; echo done > made"
    async with opened(engine, tmp_path, docker=Docker(setup=setup)) as inside:
        assert await inside.out("cat made; test $(cat /tmp/who) = $(id -u) && echo same") == "done\nsame\n"


async def test_a_network_of_ones_own_is_joined(engine: Engine, tmp_path: Path) -> None:
    name = f"crabpot-test-{os.urandom(4).hex()}"
    try:
        await engine.post("/networks/create", body={"Name": name, "Internal": True})
    except Exception as error:  # noqa: BLE001  an engine without bridges
        pytest.skip(f"this engine makes no networks: {error}")
    try:
        async with opened(engine, tmp_path, network=NetworkSpec(kind="named", name=name)) as inside:
            assert "eth0" in await inside.out("cat /proc/net/dev")
    finally:
        await engine.delete(f"/networks/{name}")


async def test_the_hosts_network_is_joined_where_written(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path, network=NetworkSpec(kind="host")) as inside:
        said = await engine.get(f"/containers/{inside.box.container}/json")
        assert said["HostConfig"]["NetworkMode"] == "host"
        assert len((await inside.out("cat /proc/net/dev")).splitlines()) > 3
        assert await inside.out("uname -n") == "crabpot\n"


async def test_a_profile_of_ones_own_is_put_into_force(engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(
        '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}'
    )
    async with opened(engine, tmp_path, docker=Docker(seccomp=str(file))) as inside:
        assert "not permitted" in await inside.out("mkdir x")


async def test_volumes_variables_and_entrypoint_of_an_image_have_no_effect(engine: Engine, tmp_path: Path) -> None:
    async with (
        derived_image(engine, "true", 'VOLUME ["/srv"]', "ENV SECRET=x", 'ENTRYPOINT ["/bin/false"]') as name,
        opened(engine, tmp_path, docker=Docker(image=name)) as inside,
    ):
        assert "Read-only" in await inside.out("touch /srv/x")
        said = await engine.get(f"/containers/{inside.box.container}/json")
        with open(f"/proc/{said['State']['Pid']}/environ") as file:
            assert "SECRET" not in file.read()


async def test_a_memory_hog_is_named_and_the_sandbox_lives_on(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path, limits=Limits(memory=Size(96 * MIB))) as inside:
        done = await inside.run("python3 -c 'x = bytearray(400 << 20)'")
        assert done.exit_code == 137
        cause = await inside.box.cause_of_death()
        assert cause is not None
        assert cause[0] == "memory_limit"
        assert await inside.box.cause_of_death() is None
        assert await inside.out("echo here") == "here\n"


async def test_a_runner_that_dies_for_want_of_memory_is_no_riddle(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path, limits=Limits(memory=Size(48 * MIB))) as inside:
        # What lies in /tmp counts as memory and as nobody's: the largest process is the runner.
        with pytest.raises(SandboxLost):
            await inside.run("dd if=/dev/zero of=/tmp/big bs=1M count=100")
        assert (await inside.box.cause_of_death() or ("", ""))[0] == "memory_limit"
        assert await inside.box.cause_of_death() is None


async def test_a_fork_bomb_is_named_and_the_sandbox_lives_on(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path, limits=Limits(pids=20)) as inside:
        await inside.run("i=0; while [ $i -lt 60 ]; do sleep 100 & i=$((i+1)); done")
        cause = await inside.box.cause_of_death()
        assert cause is not None
        assert cause[0] == "process_limit"
        assert await inside.out("echo here") == "here\n"


async def test_a_frozen_sandbox_stands_still_and_can_be_closed(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path) as inside:
        await inside.box.freeze()
        call = asyncio.create_task(inside.run("echo moved"))
        done, _ = await asyncio.wait([call], timeout=0.5)
        assert not done
        await inside.box.thaw()
        assert (await call).stdout == "moved\n"
        await inside.box.freeze()
    await nothing_left(engine, tmp_path)
    with pytest.raises(SandboxLost):
        await inside.box.freeze()


async def test_many_are_opened_at_once(engine: Engine, tmp_path: Path) -> None:
    made = backend(engine, tmp_path)
    boxes = await asyncio.gather(*(made.open(spec_in(tmp_path)) for _ in range(12)))
    assert len({box.container for box in boxes}) == 12
    await asyncio.gather(*(box.close() for box in boxes))
    await nothing_left(engine, tmp_path)


@AS_ROOT
async def test_a_private_folder_is_given_to_the_configured_user(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path, user=User(uid=4321, gid=4322)) as inside:
        assert (await inside.out("id -u; id -g; stat -c %u .")).split() == ["4321", "4322", "4321"]


async def test_a_container_that_is_killed_in_a_call_is_lost_and_gone(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path) as inside:
        call = asyncio.create_task(inside.run("sleep 100"))
        await asyncio.wait([call], timeout=0.2)
        await engine.post(f"/containers/{inside.box.container}/kill")
        with pytest.raises(SandboxLost):
            await call
    await nothing_left(engine, tmp_path)
