"""The parts of a run, each of which can be measured alone: one method for each, named as on the command line."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench import doors, endurance, growth, measures, network, openings, review, search
from bench.contest import SPAWN, Entrant, contest, spawning
from bench.entrants import SESSION, SMALL, calling, claiming, opening, prepare, seconds, tools
from bench.figures import Comparison, Curve, Figure, Report
from bench.machine import bare_python, bwrap, machine
from bench.peers import PEERS
from bench.peers.peer import PeerFailed
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from bench.peers.peer import Running
    from bench.run import BenchOptions
    from crabpot.gateway import Gateway

_WARM = 10
# More than one agent may have by default: the cost of many is what is measured.
_MANY = "{ gateway: { maxSandboxes: 2000, maxSandboxesPerAgent: 2000 } }"
_DOCKER = '{ agents: { defaults: { sandbox: { backend: "docker" } } } }'
# The network plugin of scripts/cluster enforces no policy.
_KUBERNETES = '{ agents: { defaults: { sandbox: { backend: "kubernetes", kubernetes: { inet: "refuse" } } } } }'
# On a disk: /tmp may be memory.
_PROJECTS = "/var/tmp"  # noqa: S108  for folders of a random name
_ONE_COMMAND = ("bare bwrap", "nono", "gVisor, runsc do", "codex", "srt")
_ALIVE = (1, 10, 50, 100, 250, 500, 1000)
_BUSY = "timeout 60 sh -c 'while :; do :; done'"


@dataclass(slots=True, kw_only=True)
class Run:
    """A run under way."""

    plan: BenchOptions
    # What ends with the part that is measured, and the peers, which outlive it.
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    lasting: AsyncExitStack = field(default_factory=AsyncExitStack)
    # Why a part was not measured.
    why: dict[str, str] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)
    peers: dict[str, dict[str, str]] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    async def measure(self, part: str) -> None:
        """Measure one part. What fails is noted: the other parts, and the rows of this one, go on without it."""
        async with AsyncExitStack() as self.stack:
            try:
                await getattr(self, part)()
            except Exception as error:  # noqa: BLE001  an hour's results are not lost to one part
                self.why[part] = " ".join(f"{error or type(error).__name__}".split())[:300]
                self.plan.progress(f"{part} could not be measured: {self.why[part]}")

    async def start_peers(self, *names: str) -> None:
        """Install the peers if requested, all or the named ones, and start those that can run here."""
        crabpot = json.dumps([sys.executable, "-I", "-m", "crabpot"])
        environ = {**self.plan.environ, "CRABPOT_BENCH_BWRAP": bwrap(), "CRABPOT_BENCH_CRABPOT": crabpot}
        for peer in (peer for peer in PEERS if not names or peer.name in names):
            record = self.peers[peer.name] = {"beyond": peer.beyond}
            try:
                if self.plan.install:
                    self.plan.progress(f"installing {peer.name}")
                    await peer.install(self.plan.cache)
                running = await peer.start(self.plan.cache, environ)
            except PeerFailed as failure:
                record["absent"] = str(failure)
                continue
            self.lasting.push_async_callback(running.end)
            record["version"] = running.version
            self.running.append(running)

    def failed(self, name: str, why: str) -> None:
        """Note why an entrant dropped out."""
        self.peers.setdefault(name, {})["absent"] = why

    def entrants(self, what: str) -> list[Entrant]:
        """Return the peers that can do something."""

        def entrant(running: Running) -> Entrant:
            return Entrant(name=running.peer.name, block=lambda times: running.measure(what, times))

        return [entrant(running) for running in self.running if what in running.can]

    def folder(self, where: str | None = None) -> str:
        """Make a folder that others may enter, and that is removed when the part ends."""
        made = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="crabpot-bench-", dir=where))
        if where is not None:
            os.chmod(made, 0o755)  # noqa: S103  root's sandboxes are somebody else
        return os.path.realpath(made)

    def gateway(self, text: str) -> Gateway:
        """Open a gateway on a state of its own, which ends with the part."""
        gateway = self.plan.open_gateway(text, self.folder())
        self.stack.push_async_callback(gateway.close)
        return gateway

    async def beside(self) -> dict[str, Gateway]:
        """Open gateways on docker, if there is an engine and an image, and on a cluster that is named."""
        texts = {"crabpot, docker": _DOCKER}
        if "CRABPOT_BENCH_KUBECTL" in self.plan.environ:
            texts["crabpot, kubernetes"] = _KUBERNETES
        made = {}
        for name, text in texts.items():
            gateway = self.gateway(text)
            result = await gateway.call(SESSION, "exec", command="true")
            if result.success:
                made[name] = gateway
            else:
                message = result.stderr if result.error is None else result.error.message
                self.peers[name] = {"absent": message[:300]}
        return made

    async def calls(self) -> None:
        """Measure opening and calling beside the limit and beside every peer."""
        rounds, progress = self.plan.rounds, self.plan.progress
        await self.start_peers()
        embedded = self.gateway("{}")
        warm = self.gateway(f"{{ agents: {{ defaults: {{ sandbox: {{ warm: {_WARM} }} }} }} }}")
        warm.execution.warm_up(warm.settings)
        ours = {"crabpot": embedded, **await self.beside()}
        for gateway in ours.values():
            await seconds(gateway.call(SESSION, "write", path="small.txt", content=SMALL))
        calls = (
            ("exec", "`exec true`", {"command": "true"}),
            ("read", "`read` of 4 KiB", {"path": "small.txt"}),
            ("write", "`write` of 4 KiB", {"path": "written.txt", "content": SMALL}),
        )
        for tool, what, args in calls:
            progress(f"{tool}: the limit, ours, {len(self.entrants(tool))} peers")
            entrants = [SPAWN, *(calling(gateway, name, tool, args) for name, gateway in ours.items())]
            await self._contest(tool, what, [*entrants, *self.entrants(tool)], rounds)
        progress("opening: the limit, ours, the peers")
        openers = [opening(gateway, name) for name, gateway in ours.items()]
        entrants = [SPAWN, claiming(warm, "crabpot, kept ready", _WARM), *openers, *self.entrants("open")]
        await self._contest("open", "From nothing to the result of a first command", entrants, max(4, rounds // 2))

    async def _contest(self, name: str, what: str, entrants: list[Entrant], rounds: int) -> None:
        series = await contest(entrants, rounds, self.failed)
        self.comparisons.append(Comparison(id=name, what=what, limit="bare spawn", series=series))

    async def openings(self) -> None:
        """Open one by one, staggered, and all at once."""
        gateway = self.gateway(_MANY)
        self.comparisons += await openings.openings(gateway, bare_python(), 100, 3 if self.plan.full else 1)

    async def many(self) -> None:
        """Call among more and more sandboxes that are alive."""
        counts = _ALIVE if self.plan.full or "many" in self.plan.only else (1, 100)
        self.curves += await growth.among(self.gateway(_MANY), counts, self.plan.rounds)

    async def commands(self) -> None:
        """Measure whole commands, beside the peers that are started for each command too."""
        if not self.running:
            await self.start_peers(*_ONE_COMMAND)
            ours = calling(self.gateway("{}"), "crabpot", "exec", {"command": "true"})
            what = "`exec true`, and a sandbox for one command"
            await self._contest("one-command", what, [SPAWN, ours, *self.entrants("exec")], self.plan.rounds)
        peers = [one for one in self.entrants("open") if one.name in ("srt", "codex")]
        state = self.folder()
        self.comparisons.append(await measures.command_line(state, self.plan.rounds // 2, peers))

    async def servers(self) -> None:
        """Measure an MCP server, bare and in a sandbox."""
        from bench import servers  # noqa: PLC0415  only this part needs the protocol's own package

        self.comparisons += await servers.servers(self.gateway, self.plan.rounds)

    async def review(self) -> None:
        """Measure folders under review."""
        sizes = {"files": 200_000, "forked": 50_000} if self.plan.full else {"files": 20_000, "forked": 5_000}
        folder = self.folder(_PROJECTS)
        self.comparisons += await review.review(self.gateway, folder, rounds=self.plan.rounds, **sizes)

    async def search(self) -> None:
        """Search beside ripgrep."""
        if shutil.which("rg") is None:
            raise CrabpotError("ripgrep is not installed (apt-get install ripgrep)")
        sizes = (1000, 100_000) if self.plan.full else (1000,)
        self.comparisons += await search.search(self.gateway, self.folder(_PROJECTS), sizes, self.plan.rounds)

    async def files(self) -> None:
        """Move 100 MB in and out."""
        self.figures += await measures.large_file(self.gateway("{}"), 100 * 1024**2, 7 if self.plan.full else 3)

    async def download(self) -> None:
        """Download 1 GB through the gateway."""
        if shutil.which("curl") is None:
            raise CrabpotError("curl is not installed (apt-get install curl)")
        self.figures.append(await network.download(self.plan.open_gateway, 5 if self.plan.full else 2))

    async def doors(self) -> None:
        """Call through every door."""
        self.comparisons += await doors.doors(self.gateway("{}"), self.folder(), self.plan.reach, self.plan.rounds)

    async def tools(self) -> None:
        """Measure every tool, and two of them on a busy machine."""
        gateway = self.gateway("{}")
        await prepare(gateway)
        series = await contest(tools(gateway), self.plan.rounds)
        self.comparisons.append(
            Comparison(id="tools", what="Every kind of call, embedded", limit="exec", series=series)
        )
        self.comparisons.append(await _busy(gateway, self.plan.rounds // 2))

    async def callers(self) -> None:
        """Let 1 to 64 call at once."""
        self.curves.append(await growth.callers(self.gateway("{}"), (1, 2, 4, 8, 16, 32, 64), 0.5))

    async def endurance(self) -> None:
        """Open and close many, and tell on the way what the gateway holds."""
        self.plan.progress(f"{self.plan.count:,} opened and closed")

        def seen(curve: Curve) -> None:
            self.plan.progress(endurance.told(curve))
            if self.plan.curve:
                report = Report(machine=machine(self.plan.version), curves=(curve,))
                with open(self.plan.curve, "w", encoding="utf-8") as stream:
                    json.dump([report.as_json()], stream)

        self.curves.append(await endurance.endurance(self.gateway("{}"), self.plan.count, seen))

    async def records(self) -> None:
        """Call behind a log of up to a million records."""
        state = self.folder()

        def long(most: int) -> Gateway:
            return self.plan.open_gateway(f"{{ audit: {{ rotate: {2 * most} }} }}", state)

        self.curves.append(await growth.records(long, state, (0, 10_000, 100_000, 1_000_000), self.plan.rounds))


async def _busy(gateway: Gateway, rounds: int) -> Comparison:
    calls = (("exec true", "exec", {"command": "true"}), ("read of 4 KiB", "read", {"path": "small.txt"}))

    def entrants(when: str) -> list[Entrant]:
        spawn = Entrant(name=f"bare spawn, {when}", block=spawning(["sh", "-c", "true"]))
        return [spawn, *(calling(gateway, f"{name}, {when}", tool, args) for name, tool, args in calls)]

    idle = await contest(entrants("idle"), rounds)
    loads = [f"agent:main:load-{number}" for number in range(2)]
    started = [await gateway.call(load, "exec", command=_BUSY, background=True) for load in loads]
    if not all(result.success for result in started):
        raise CrabpotError("no load could be made")
    busy = await contest(entrants("busy"), rounds)
    for load, result in zip(loads, started, strict=True):
        await gateway.call(load, "process", action="kill", id=(result.data or {})["process"])
    note = "Busy: two other sandboxes compute without end."
    return Comparison(id="busy", what="Idle and busy", note=note, series=(*idle, *busy))
