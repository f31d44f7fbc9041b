"""A run under gVisor: the same tools behind a kernel of its own, and what it does not promise is announced."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from crabpot.backends.docker import facts
from crabpot.settings import Docker, Limits
from tests.live.docker.live import backend, nothing_left, opened, spec_in

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.backends.docker.engine import Engine

RUNSC = Docker(runtime="runsc")


@pytest.fixture(autouse=True)
def _gvisor(engine: Engine) -> None:
    found = asyncio.run(facts.find_out(engine))
    if "runsc" not in found.gvisor:
        pytest.skip("the engine knows no runtime runsc: apt-get install runsc, then start the engine anew")


async def test_commands_and_file_tools_work_in_a_kernel_that_is_not_this_one(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path, docker=RUNSC) as inside:
        assert "gVisor" in await inside.out("dmesg")
        assert await inside.out("id -un; pwd") == "agent\n/workspace\n"
        written = await inside.wire.call("write", {"path": "a/b", "content": "by tool\n"}, timeout_s=20)
        assert written.success
        assert await inside.out("cat a/b; echo by shell > c") == "by tool\n"
        read = await inside.wire.call("read", {"path": "c"}, timeout_s=20)
        assert read.success
    await nothing_left(engine, tmp_path)


async def test_a_time_limit_ends_the_whole_tree_and_orphans_are_reaped(engine: Engine, tmp_path: Path) -> None:
    async with opened(engine, tmp_path, docker=RUNSC) as inside:
        late = await inside.run("(setsid sleep 901 &); sleep 902", timeout_s=1.0)
        assert late.error is not None
        assert late.error[0] == "timeout"
        assert await inside.out("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 90[12]'") == "0\n"


async def test_many_commands_do_not_wear_it_out(engine: Engine, tmp_path: Path) -> None:
    """gVisor's own threads count as the container's: with a limit of processes that left no room it ended."""
    async with opened(engine, tmp_path, docker=RUNSC, limits=Limits(pids=20)) as inside:
        for number in range(40):
            assert await inside.out(f"echo {number} | cat | cat") == f"{number}\n"


async def test_it_is_announced_what_gvisor_does_not_keep(engine: Engine, tmp_path: Path) -> None:
    shown = await backend(engine, tmp_path).probe(spec_in(tmp_path, docker=RUNSC))
    assert {"seccomp", "limits.pids"} <= {one.name for one in shown if one.state == "degraded"}
    assert not [one for one in shown if one.state == "refused"]


async def test_the_hosts_devices_stay_roots(engine: Engine, tmp_path: Path) -> None:
    """Whoever owns /dev/null decides who may write it, and sandboxes of root's run as nobody."""
    before = os.stat("/dev/null")
    async with opened(engine, tmp_path, docker=RUNSC) as inside:
        assert await inside.out("echo on") == "on\n"
    after = os.stat("/dev/null")
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
