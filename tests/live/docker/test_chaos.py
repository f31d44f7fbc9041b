"""Gateway, engine and containers are killed at random during hundreds of calls: no wrong answer, and nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crabpot.backends.docker import owner
from crabpot.backends.docker.engine import Engine, EngineError
from tests.live.docker.live import containers, gateway, nothing_left, watchdogs_over
from tests.support.chaos import Callers

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = int(os.environ.get("CRABPOT_TEST_CALLS", "500"))
# Every so many answers something dies, and of all deaths so many are of each kind: an engine takes seconds to come back.
EVERY = 14
DEATHS = ("container", "init", "shim", "container", "gateway", "init", "engine", "shim", "gateway")
LONGEST_S = 110.0 + CALLS / 5


class Chaos(Callers):
    """Gateways over an engine, and who else can be killed."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        defaults = {"workspace": str(folder / "agent"), "sandbox": {"backend": "docker"}}
        environ = {"DOCKER_HOST": f"unix://{engine.path}", "HOME": str(folder / "home")}
        super().__init__(json.dumps({"agents": {"defaults": defaults}}), folder / "state", environ)

    async def strike(self, what: str, chance: random.Random, control: Callable[[str], None]) -> None:
        if what == "gateway":
            await self.kill()
        elif what == "engine":
            pid = int(Path(self.engine.path).with_name("docker.pid").read_text())
            os.kill(pid, signal.SIGKILL)
            await asyncio.to_thread(control, "start")
        else:
            await self._kill_one(what, chance)

    async def _kill_one(self, what: str, chance: random.Random) -> None:
        with suppress(EngineError, OSError, ValueError, IndexError):
            found = await containers(self.engine, f"{owner.STATE}={owner.state_label(str(self.folder / 'state'))}")
            victim = chance.choice(found)["Id"]
            if what == "container":
                await self.engine.post(f"/containers/{victim}/kill")
                return
            pid = (await self.engine.get(f"/containers/{victim}/json"))["State"]["Pid"]
            if what == "shim":
                pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            of = Path(f"/proc/{pid}/cgroup").read_text() + Path(f"/proc/{pid}/cmdline").read_text()
            if pid > 1 and victim in of:
                os.kill(pid, signal.SIGKILL)


def test_whoever_is_killed_during_hundreds_of_calls_no_answer_is_wrong_and_nothing_is_left(
    second_engine: Any, tmp_path: Path
) -> None:
    engine, control = second_engine
    asyncio.run(_run(engine, control, tmp_path))


async def _run(engine: Engine, control: Callable[[str], None], folder: Path) -> None:
    await engine.negotiate()
    chance = random.Random(11)
    chaos, until, deaths = Chaos(engine, folder), time.monotonic() + LONGEST_S, 0
    try:
        while len(chaos.answers) < CALLS:
            assert time.monotonic() < until, f"only {len(chaos.answers)} answers in {LONGEST_S:g} s"
            assert chaos.process.poll() is None, "the gateway ended by itself"
            if len(chaos.answers) >= (deaths + 1) * EVERY:
                await chaos.strike(DEATHS[deaths % len(DEATHS)], chance, control)
                deaths += 1
            await asyncio.sleep(chance.uniform(0.0, 0.03))
    finally:
        ended = await asyncio.to_thread(chaos.end)
    assert ended == 0
    assert chaos.wrong == []
    assert chaos.right > CALLS / 2, f"{chaos.right} of {len(chaos.answers)} answers, {deaths} deaths"
    await _recovers(engine, folder)


async def _recovers(engine: Engine, folder: Path) -> None:
    """The next gateway over the same state works, and afterwards there is no container, process or watchdog."""
    made = gateway(folder, f"unix://{engine.path}")
    try:
        result = await made.call("agent:main:chaos-0", "exec", {"command": "echo well"})
        assert (result.stdout, result.error) == ("well\n", None)
    finally:
        await made.close()
    await nothing_left(engine, folder)
    deadline = time.monotonic() + 30
    while left := [pid for pid in watchdogs_over(engine) if pid[1] != os.getpid()]:
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.1)
    assert _runners(folder) == []


def _runners(folder: Path) -> list[str]:
    """Name the processes on this machine that still have something of the state folder mounted.

    Not what an engine was about to make a container of when it was killed: it forgets that, and nothing of ours ever
    runs in it.
    """
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if str(folder / "state") in Path(f"/proc/{name}/mountinfo").read_text():
                    found.append(Path(f"/proc/{name}/cmdline").read_text())
    return [one for one in found if one != "runc\0init\0"]
