"""Limits that bite, freezing, and what is left, wherever the gateway runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.guest.place import KEY, PLACE, ROOT, WITHIN, gone, group_of, sandbox_of
from tests.support.waiting import until, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

SLOW_S = 120.0
HOG = 'exec python3 -c "b = bytearray(400 << 20); print(len(b))"'
BUSY = """exec python3 -c '
import time
began, used = time.monotonic(), time.process_time()
while time.monotonic() - began < 5: pass
print((time.process_time() - used) / (time.monotonic() - began))'"""


async def clauses_of(gateway: Any) -> dict[str, Any]:
    agent = gateway.settings.agent("main")
    spec = gateway.execution.describe(agent, KEY)[0]
    return {one.name: one for one in (await gateway.execution.registry.clauses(spec))[1]}


async def test_every_limit_is_set_where_the_sandbox_really_is_and_a_busy_loop_gets_its_share(
    opened: Callable[..., Any],
) -> None:
    async with opened({"cpus": 0.3}) as gateway:
        told = await clauses_of(gateway)
        for name in ("limits.memory", "limits.cpus", "limits.pids"):
            assert told[name].state == "enforced", told[name]
        group = group_of(await sandbox_of(gateway))
        assert WITHIN[PLACE] in str(group), group
        assert (group / "memory.max").read_text().strip() == str(96 << 20)
        assert (group / "pids.max").read_text().strip() == "40"
        assert (group / "cpu.max").read_text().split() == ["30000", "100000"]
        result = await gateway.call(KEY, "exec", command=BUSY, timeout=SLOW_S)
        assert 0.1 < float(result.stdout) < 0.36, result


async def test_a_process_over_its_memory_dies_alone(opened: Callable[..., Any]) -> None:
    async with opened() as gateway:
        pid = await sandbox_of(gateway)
        started = await gateway.call(KEY, "exec", command="exec sleep 1000", background=True)
        for _ in range(3):
            hit = await gateway.call(KEY, "exec", command=HOG, timeout=SLOW_S)
            assert hit.error is not None, hit
            assert hit.error.code == "memory_limit", hit
        beside = await gateway.call(KEY, "process", action="poll", id=started.data["process"])
        assert beside.data["running"], "the process beside it was killed too"
        assert await sandbox_of(gateway) == pid, "the sandbox is another one"


async def test_processes_end_at_their_limit(opened: Callable[..., Any]) -> None:
    async with opened() as gateway:
        await sandbox_of(gateway)
        command = "i=0; while [ $i -lt 100 ]; do sleep 60 & i=$((i + 1)); done; echo all of them"
        result = await gateway.call(KEY, "exec", command=command, timeout=SLOW_S)
        assert "all of them" not in result.stdout
        assert not result.success
        assert (await gateway.call(KEY, "exec", command="echo alive", timeout=SLOW_S)).stdout == "alive\n"


async def test_nothing_moves_while_a_sandbox_is_frozen(opened: Callable[..., Any], state: Path) -> None:
    async with opened() as gateway:
        await sandbox_of(gateway)
        await gateway.call(KEY, "exec", command="while :; do echo x >> ticks; sleep 0.05; done", background=True)
        (live,) = gateway.execution.fleet.listed()
        ticks = Path(live.wanted.spec.workspace, "ticks")
        await until(lambda: ticks.exists() and ticks.stat().st_size > 4, SLOW_S)
        await live.sandbox.freeze()
        before = ticks.stat().st_size
        await asyncio.sleep(3)
        assert ticks.stat().st_size == before
        await live.sandbox.thaw()
        await until(lambda: ticks.stat().st_size > before, SLOW_S)


async def test_a_sandbox_that_is_gone_is_frozen_thawed_and_closed_without_a_complaint(
    opened: Callable[..., Any],
) -> None:
    async with opened() as gateway:
        pid = await sandbox_of(gateway)
        (live,) = gateway.execution.fleet.listed()
        group = group_of(pid)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not has_processes(group), SLOW_S)
        await live.sandbox.freeze()
        await live.sandbox.thaw()
        await live.end()


def has_processes(group: Path) -> bool:
    try:
        return "populated 1" in (group / "cgroup.events").read_text()
    except OSError:
        return False


async def test_nothing_is_left_when_a_gateway_closes(opened: Callable[..., Any]) -> None:
    async with opened() as gateway:
        pid = await sandbox_of(gateway)
        group = group_of(pid)
    wait_until(lambda: gone(pid) and not group.exists(), SLOW_S)
    assert PLACE != "root" or not (ROOT / "crabpot").exists(), "root's own folder is left"


def test_nothing_is_left_of_a_gateway_that_was_killed(state: Path) -> None:
    config = {"agents": {"defaults": {"sandbox": {"backend": "bubblewrap", "limits": {"memory": "96m"}}}}}
    with gateway_process(config, state) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        pid = int(line)
        group = group_of(pid)
        assert WITHIN[PLACE] in str(group), group
        process.kill()
    wait_until(lambda: gone(pid), SLOW_S)
    # The next gateway clears what a killed one left.
    with gateway_process(config, state) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        wait_until(lambda: not group.exists(), SLOW_S)


def gateway_process(config: dict[str, Any], state: Path) -> subprocess.Popen[str]:
    """Start a gateway with one sandbox in a process of its own, which prints the sandbox's first process."""
    program = f"""
        import asyncio, json, sys
        from tests.guest.place import KEY, sandbox_of
        from tests.support.suites import open_gateway
        async def main():
            gateway = open_gateway({json.dumps(json.dumps(config))}, {str(state)!r})
            print(await sandbox_of(gateway), flush=True)
            await asyncio.to_thread(sys.stdin.read)
            await gateway.close()
        asyncio.run(main())
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
