"""Whoever dies, gateway, container, runner or engine: no wrong answer, nothing left, and the next call works."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crabpot
from crabpot.backends.docker import owner, watchdog
from tests.live.docker.live import gateway, left_of, nothing_left, watchdogs_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.backends.docker.engine import Engine

ROOT = Path(crabpot.__file__).parents[2]


async def stop_a_runner(engine: Engine, folder: Path) -> None:
    """Stop one from outside (as pid 1 nothing inside can): it never sees its stream end."""
    one = await engine.get(f"/containers/{(await left_of(engine, folder))[0].lstrip('/')}/json")
    os.kill(one["State"]["Pid"], signal.SIGSTOP)


@contextmanager
def gateway_process(engine: Engine, folder: Path, *commands: str) -> Iterator[subprocess.Popen[str]]:
    program = str(Path(__file__).with_name("gateway_process.py"))
    process = subprocess.Popen(
        [sys.executable, program, str(folder), f"unix://{engine.path}", *commands],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


async def test_after_a_kill_of_the_gateway_no_container_stays(engine: Engine, tmp_path: Path) -> None:
    theirs = await _stranger(engine)
    try:
        with gateway_process(engine, tmp_path, "sleep 100", "true", "trap '' TERM HUP; sleep 100") as process:
            await stop_a_runner(engine, tmp_path)
            assert len(await left_of(engine, tmp_path)) == 3
            process.kill()
            await nothing_left(engine, tmp_path)
        assert (await engine.get(f"/containers/{theirs}/json"))["State"]["Running"]
    finally:
        await engine.delete(f"/containers/{theirs}", {"force": "1"})


async def test_a_stopped_runner_is_removed_by_the_watchdog_and_nobody_else(engine: Engine, tmp_path: Path) -> None:
    with gateway_process(engine, tmp_path, "sleep 100") as process:
        await stop_a_runner(engine, tmp_path)
        [watchdog] = watchdogs_of(process.pid)
        os.kill(watchdog, signal.SIGTERM)
        os.kill(watchdog, signal.SIGINT)
        os.kill(watchdog, signal.SIGSTOP)
        process.kill()
        process.wait()
        await asyncio.wait([asyncio.ensure_future(asyncio.sleep(1.0))])
        assert len(await left_of(engine, tmp_path)) == 1
        os.kill(watchdog, signal.SIGCONT)
        await nothing_left(engine, tmp_path)

        async def ended() -> bool:
            return not os.path.exists(f"/proc/{watchdog}")

        await until(ended)


async def test_without_a_watchdog_the_runner_ends_with_its_stream_and_orphans_are_reaped(
    engine: Engine, tmp_path: Path
) -> None:
    with gateway_process(engine, tmp_path, "sleep 100", "sleep 100") as process:
        await stop_a_runner(engine, tmp_path)
        os.kill(watchdogs_of(process.pid)[0], signal.SIGKILL)
        process.kill()
        process.wait()

    async def one_left() -> bool:
        return len(await left_of(engine, tmp_path)) == 1

    await until(one_left)
    made = gateway(tmp_path, f"unix://{engine.path}")
    try:
        result = await made.call("agent:main:1", "exec", {"command": "echo back"})
        assert result.stdout == "back\n"
    finally:
        await made.close()
    await nothing_left(engine, tmp_path)


async def test_a_watchdog_does_not_wait_for_ever_for_an_engine_that_is_gone(tmp_path: Path) -> None:
    async with asyncio.timeout(20):
        await asyncio.to_thread(watchdog.clean_up, str(tmp_path / "docker.sock"), "/v1.41", owner.own(), 0.3)
        await asyncio.to_thread(watchdog.clean_up, str(tmp_path / "gone/docker.sock"), "/v1.41", owner.own(), 300.0)


async def test_a_gateway_that_ends_in_order_leaves_neither_container_nor_watchdog(
    engine: Engine, tmp_path: Path
) -> None:
    with gateway_process(engine, tmp_path, "true") as process:
        watchdogs = watchdogs_of(process.pid)
        process.send_signal(signal.SIGINT)
        process.wait(20)

    async def ended() -> bool:
        return not any(os.path.exists(f"/proc/{pid}") for pid in watchdogs)

    await until(ended)
    await nothing_left(engine, tmp_path)


async def test_an_engine_that_restarts_in_a_call_loses_it_and_the_next_one_works(
    second_engine: Any, tmp_path: Path
) -> None:
    engine, control = second_engine
    made = gateway(tmp_path, f"unix://{engine.path}")
    try:
        assert (await made.call("agent:main:main", "exec", {"command": "true"})).success
        call = asyncio.create_task(made.call("agent:main:main", "exec", {"command": "echo begun; sleep 100"}))
        await asyncio.wait([call], timeout=0.3)
        await asyncio.to_thread(control, "stop")
        result = await call
        assert result.error is not None
        assert result.error.code == "sandbox_lost"
        while_away = await made.call("agent:main:main", "exec", {"command": "true"})
        assert while_away.error is not None
        assert while_away.error.code == "sandbox_unavailable"
        assert "is it running" in while_away.error.message
        await asyncio.to_thread(control, "start")
        back = await made.call("agent:main:main", "exec", {"command": "echo back"})
        assert (back.stdout, back.error) == ("back\n", None)
    finally:
        await made.close()
    await engine.negotiate()
    await nothing_left(engine, tmp_path)


async def _stranger(engine: Engine) -> str:
    image = (await engine.get("/images/crabpot-sandbox:latest/json"))["Id"]
    body = {"Image": image, "Cmd": ["sleep", "300"], "HostConfig": {"Init": True, "AutoRemove": True}}
    made = await engine.post("/containers/create", body=body)
    await engine.post(f"/containers/{made['Id']}/start")
    return str(made["Id"])
