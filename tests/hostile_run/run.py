"""One hostile agent and one hostile token beside an honest agent: how long the honest one's work takes meanwhile, and what the gateway holds.

Everything is real: a gateway that serves, sandboxes, an operator's HTTP API. It runs in a network namespace of its own,
where a name server hears every question and answers none.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.figures import Series
from crabpot.doors.http.access.principals import Role
from crabpot.doors.http.access.tokens import Tokens
from crabpot.doors.local.client import connect
from tests.hostile_run.agent import AGENT, TOKENS_AGENT
from tests.hostile_run.bystander import measure
from tests.hostile_run.probes import HOST, Browser, Probes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

ASK = "an approval"
_SAMPLE_S, _START_S = 0.25, 60.0
# What a program prints in one line: how long each thing took.
_LONGEST_LINE = 1024**2
QUIET, HOSTILE = "quiet", "beside both"
# What is still on its way when the hostile ones hang up.
_SETTLE_S = 5.0


@dataclass(slots=True)
class Phase:
    """One stretch of the run: what the honest agent and the operator waited for each thing."""

    name: str
    began_s: float
    ended_s: float = 0.0
    waits: dict[str, list[float]] = field(default_factory=dict)

    def series(self, what: str) -> Series:
        """Return what was measured of one thing."""
        return Series(name=f"{what}, {self.name}", values=tuple(self.waits[what]))


@dataclass(slots=True)
class Report:
    """What came of it."""

    phases: list[Phase] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    at_doors: dict[str, int] = field(default_factory=dict)
    log_bytes: int = 0

    @property
    def peak_bytes(self) -> int:
        """The most that the gateway held."""
        return max(size for _, size in self.memory)

    def waits(self, what: str, name: str) -> Series:
        """Return what was measured of one thing in all phases of one name."""
        found = [wait for phase in self.phases if phase.name == name for wait in phase.waits[what]]
        return Series(name=f"{what}, {name}", values=tuple(found))

    def ratio(self, what: str) -> float:
        """Return how much longer one thing took beside the hostile ones than in quiet, by medians of all rounds."""
        return self.waits(what, HOSTILE).median / self.waits(what, QUIET).median

    def ratios(self, what: str) -> list[float]:
        """Return the same for each round: a quiet phase and the hostile one after it."""
        medians = [phase.series(what).median for phase in self.phases]
        return [hostile / quiet for quiet, hostile in zip(medians[::2], medians[1::2], strict=False)]


def configuration(port: int) -> dict[str, Any]:
    """Return two agents that differ in what they are let to do, and neither has more than a person would give it."""
    elevated = {"enabled": True, "patterns": ["uname *"]}
    hostile = {
        "network": {"allow": ["*.silent.example:443"]},
        "hostCommands": ["uname"],
        "limits": {"cpus": 0.02, "cpuShares": 8, "memory": "256m", "pids": 60},
    }
    return {
        "agents": {
            "defaults": {"sandbox": {"backend": "bubblewrap"}},
            "entries": {
                "honest": {
                    "sandbox": {"network": {"allow": [f"{HOST}:{port}", f"127.0.0.9:{port}"]}},
                    "tools": {"elevated": elevated},
                },
                AGENT: {"sandbox": hostile, "tools": {"elevated": elevated}},
                TOKENS_AGENT: {"sandbox": {"limits": hostile["limits"]}},
            },
        }
    }


async def run(folder: str, *, rounds: int, quiet_s: float, hostile_s: float) -> Report:
    """Measure in quiet and beside the hostile ones, in turn: a machine that others use is not the same for long."""
    deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    deaf.bind(("127.0.0.1", 53))
    web = await asyncio.start_server(_hello, "127.0.0.9", 0)
    port = web.sockets[0].getsockname()[1]
    report, began = Report(), time.monotonic()
    async with (
        _served(folder, configuration(port)) as (pid, probes),
        probes.watching(),
        _bystander(f"{folder}/state", port, probes.browser) as others,
    ):
        sampling = asyncio.create_task(_sample(pid, began, report.memory))
        await probes.ask()

        async def phase(name: str, lasts_s: float) -> None:
            one = Phase(name, time.monotonic() - began)
            report.phases.append(one)
            asked, one.waits = await asyncio.gather(measure(probes.ask, lasts_s), others(lasts_s))
            one.waits[ASK] = asked
            one.ended_s = time.monotonic() - began

        for _ in range(rounds):
            await phase(QUIET, quiet_s)
            async with _hostile(f"{folder}/state", probes, report):
                await phase(HOSTILE, hostile_s)
            await probes.clear()
            await asyncio.sleep(_SETTLE_S)
        await phase(QUIET, quiet_s)
        sampling.cancel()
    state = f"{folder}/state"
    report.log_bytes = sum(os.path.getsize(f"{state}/{name}") for name in os.listdir(state) if "audit.db" in name)
    web.close()
    deaf.close()
    return report


@asynccontextmanager
async def _bystander(
    state: str, port: int, browser: Browser
) -> AsyncIterator[Callable[[float], Awaitable[dict[str, list[float]]]]]:
    """Have the honest agent in a program of its own; yield what measures it for so many seconds."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "tests.hostile_run.bystander", state, str(port), str(browser.port), browser.token)
    running = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=_LONGEST_LINE)
    stdin, stdout = running.stdin, running.stdout
    assert stdin is not None
    assert stdout is not None
    assert await stdout.readline() == b"ready\n"

    async def others(lasts_s: float) -> dict[str, list[float]]:
        stdin.write(b"%g\n" % lasts_s)
        waits: dict[str, list[float]] = json.loads(await stdout.readline())
        return waits

    try:
        yield others
    finally:
        stdin.close()
        await running.wait()


async def _hello(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    await writer.drain()
    writer.close()


async def _sample(pid: int, began: float, memory: list[tuple[float, int]]) -> None:
    while True:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        memory.append((time.monotonic() - began, pages * os.sysconf("SC_PAGESIZE")))
        await asyncio.sleep(_SAMPLE_S)


@asynccontextmanager
async def _hostile(state: str, probes: Probes, report: Report) -> AsyncIterator[None]:
    """Have the hostile agent at work for as long as a block lasts."""
    pipe = asyncio.subprocess.PIPE
    # What drives the agent is a program of the host's, whose use of the processor is nobody's to limit here.
    command = ("nice", "-n", "19", sys.executable, "-m", "tests.hostile_run.agent", state)
    token = Tokens(state).add(f"visitor-{len(report.phases)}", Role.AGENT, sessions=(f"agent:{TOKENS_AGENT}:*",))
    running = await asyncio.create_subprocess_exec(*command, str(probes.browser.port), token, stdin=pipe, stdout=pipe)
    assert running.stdout is not None
    await running.stdout.readline()
    yield
    said, _ = await running.communicate(b"\n")
    told = json.loads(said)
    for counts, more in ((report.made, "made"), (report.refused, "refused"), (report.at_doors, "at_doors")):
        counts.update(Counter(counts) + Counter(told[more]))


@asynccontextmanager
async def _served(folder: str, config: dict[str, Any]) -> AsyncIterator[tuple[int, Probes]]:
    state = f"{folder}/state"
    with open(f"{folder}/crabpot.json5", "w", encoding="utf-8") as file:
        json.dump(config, file)
    token = Tokens(state).add("probe", Role.OPERATOR)
    words = ["--config", file.name, "--state", state, "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([sys.executable, "-m", "crabpot", *words], stdout=subprocess.PIPE) as serving:
        try:
            assert serving.stdout is not None
            said = (await asyncio.to_thread(serving.stdout.readline)).decode()
            client = await connect(state, timeout_s=_START_S)
            assert client is not None, said
            yield serving.pid, Probes(client, Browser(int(said.rsplit(":", 1)[1].split(";")[0]), token))
            await client.close()
        finally:
            serving.terminate()
