"""The runner on the host: it starts in the workspace, and leaves nothing when it ends."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

import pytest

from crabpot.backends.host.backend import open_on_host
from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.settings import Limits
from tests.support.runners import ENV, connected
from tests.support.waiting import until

EVERYTHING = "the environment of the gateway's own user"


def gone(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


async def test_the_workspace_is_made_and_commands_start_there_with_the_gateways_environment(tmp_path):
    opened = await open_on_host(str(tmp_path / "a" / "b"), Limits(), {**ENV, "OWN": EVERYTHING})
    async with connected(opened) as wire:
        reply = await wire.call("exec", {"command": "pwd; echo $OWN"}, timeout_s=20)
        assert reply.stdout == f"{tmp_path}/a/b\n{EVERYTHING}\n"
        assert await opened.cause_of_death() is None


async def test_a_workspace_that_is_a_link_is_entered_once_and_for_all(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    async with connected(await open_on_host(str(tmp_path / "link"), Limits(), ENV)) as wire:
        assert (await wire.call("write", {"path": "x", "content": "y"}, timeout_s=20)).success
    assert (tmp_path / "real" / "x").read_text() == "y"


async def test_a_workspace_that_cannot_be_made_is_told_and_nothing_stays_open(tmp_path):
    (tmp_path / "file").write_text("")
    before = os.listdir("/proc/self/fd")
    for path in ("file", "file/below"):
        with pytest.raises(SandboxUnavailable, match="workspace"):
            await open_on_host(str(tmp_path / path), Limits(), {})
    assert os.listdir("/proc/self/fd") == before


async def test_an_interpreter_that_cannot_be_started_is_told_and_nothing_stays_open(tmp_path, monkeypatch):
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(SandboxUnavailable, match="No such file"):
        await open_on_host(str(tmp_path), Limits(), {})
    assert os.listdir("/proc/self/fd") == before


async def test_its_end_takes_what_it_still_runs_along(tmp_path):
    opened = await open_on_host(str(tmp_path), Limits(), ENV)
    async with connected(opened) as wire:
        args = {"command": "echo $$ > pid; setsid sleep 1000", "background": True}
        await wire.call("exec", args, timeout_s=20)
        await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        runner = wire.ready["pid"]
    for pid in (runner, int((tmp_path / "pid").read_text())):
        await until(partial(gone, pid))
    await opened.close()


async def test_one_that_does_not_end_by_itself_is_killed(tmp_path):
    opened = await open_on_host(str(tmp_path), Limits(), ENV, end_s=0.1)
    async with connected(opened) as wire:
        runner = wire.ready["pid"]
        os.kill(runner, signal.SIGSTOP)
    assert not os.path.exists(f"/proc/{runner}")


async def test_a_runner_that_dies_is_a_lost_sandbox(tmp_path):
    async with connected(await open_on_host(str(tmp_path), Limits(), ENV)) as wire:
        with pytest.raises(SandboxLost, match="stream ended"):
            await wire.call("exec", {"command": "kill -9 $PPID; sleep 2"}, timeout_s=1000)
