"""One run of the benchmark: throw-away states, everything in turn, progress on the way, nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench import doors, endurance, growth, measures, network, openings, review, rows, search, servers
from bench.contest import SPAWN, Entrant, contest, spawning
from bench.entrants import SESSION, SMALL, calling, claiming, opening, prepare, seconds, tools
from bench.figures import Comparison, Curve, Figure, Report
from bench.machine import bare_python, bwrap, machine
from bench.peers import PEERS
from bench.peers.peer import PeerFailed
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.doors import Reach
    from bench.peers.peer import Running
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
_BUSY = "timeout 60 sh -c 'while :; do :; done'"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What to measure, with what."""

    # Makes a gateway: the text of a configuration, a state folder.
    open_gateway: Callable[[str, str], Gateway]
    reach: Reach
    progress: Callable[[str], None]
    environ: Mapping[str, str]
    version: str
    cache: str
    full: bool
    install: bool
    only: str | None = None
    # How many sandboxes are opened and closed, and where what was seen on the way is written.
    count: int = 10_000
    curve: str | None = None

    @property
    def rounds(self) -> int:
        """Return how many turns everybody has."""
        return 15 if self.full else 6


@dataclass(slots=True, kw_only=True)
class Run:
    """A run under way."""

    plan: BenchOptions
    stack: AsyncExitStack
    running: list[Running] = field(default_factory=list)
    peers: dict[str, dict[str, str]] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    async def start_peers(self, *names: str) -> None:
        """Install the peers if requested, all or the named ones, and start those that can run here."""
        environ = {**self.plan.environ, "CRABPOT_BENCH_BWRAP": bwrap()}
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
            self.stack.push_async_callback(running.end)
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

    def gateway(self, text: str) -> tuple[Gateway, str]:
        """Open a gateway on a state of its own, which is removed when the run ends."""
        state = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="crabpot-bench-"))
        gateway = self.plan.open_gateway(text, state)
        self.stack.push_async_callback(gateway.close)
        return gateway, state

    async def beside(self) -> dict[str, Gateway]:
        """Open gateways on docker, if there is an engine and an image, and on a cluster that is named."""
        texts = {"crabpot, docker": _DOCKER}
        if "CRABPOT_BENCH_KUBECTL" in self.plan.environ:
            texts["crabpot, kubernetes"] = _KUBERNETES
        made = {}
        for name, text in texts.items():
            gateway, _ = self.gateway(text)
            result = await gateway.call(SESSION, "exec", command="true")
            if result.success:
                made[name] = gateway
            else:
                message = result.stderr if result.error is None else result.error.message
                self.peers[name] = {"absent": message[:300]}
        return made

    async def compare(self) -> None:
        """Measure opening and calling beside the limit and beside every peer."""
        rounds, progress = self.plan.rounds, self.plan.progress
        embedded, _ = self.gateway("{}")
        warm, _ = self.gateway(f"{{ agents: {{ defaults: {{ sandbox: {{ warm: {_WARM} }} }} }} }}")
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

    async def own(self) -> None:
        """Measure what peers have no part in, on a gateway of its own."""
        full, rounds, progress = self.plan.full, self.plan.rounds, self.plan.progress
        gateway, _ = self.gateway(_MANY)
        progress("opening one by one, staggered, at once")
        self.comparisons += await openings.openings(gateway, bare_python(), 100, 3 if full else 1)
        progress("among many that are alive")
        counts = (1, 10, 50, 100, 250, 500, 1000) if full else (1, 100)
        self.curves += await growth.among(gateway, counts, rounds)
        folder = await self.review()
        if shutil.which("rg"):
            progress("searching beside ripgrep")
            sizes_searched = (1000, 100_000) if full else (1000,)
            self.comparisons += await search.search(lambda text: self.gateway(text)[0], folder, sizes_searched, rounds)
        await self.servers()
        progress("100 MB in and out")
        self.figures += await measures.large_file(gateway, 100 * 1024**2, 7 if full else 3)
        if shutil.which("curl"):
            progress("1 GB through the gateway")
            self.figures.append(await network.download(self.plan.open_gateway, 5 if full else 2))
        await self.commands()

    async def commands(self) -> None:
        """Measure whole commands, beside the peers that are started for each command too."""
        self.plan.progress("whole commands")
        peers = [one for one in self.entrants("open") if one.name in ("srt", "codex")]
        with tempfile.TemporaryDirectory(prefix="crabpot-bench-") as state:
            self.comparisons.append(await measures.command_line(state, self.plan.rounds // 2, peers))

    async def one_command(self) -> None:
        """Measure a call in a kept sandbox, beside the peers that make a sandbox for each command."""
        await self.start_peers(*_ONE_COMMAND)
        gateway, _ = self.gateway("{}")
        entrants = [SPAWN, calling(gateway, "crabpot", "exec", {"command": "true"}), *self.entrants("exec")]
        await self._contest("one-command", "`exec true`, and a sandbox for one command", entrants, self.plan.rounds)
        await self.commands()

    async def servers(self) -> None:
        """Measure an MCP server."""
        self.plan.progress("an MCP server, bare and in a sandbox")
        self.comparisons += await servers.servers(lambda text: self.gateway(text)[0], self.plan.rounds)

    async def review(self) -> str:
        """Measure folders under review; return the folder where such projects are made."""
        self.plan.progress("folders under review")
        made = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="crabpot-bench-", dir=_PROJECTS))
        os.chmod(made, 0o755)  # noqa: S103  root's sandboxes are somebody else
        folder = os.path.realpath(made)
        sizes = {"files": 200_000, "forked": 50_000} if self.plan.full else {"files": 20_000, "forked": 5_000}
        rounds = self.plan.rounds
        self.comparisons += await review.review(lambda text: self.gateway(text)[0], folder, rounds=rounds, **sizes)
        return folder

    async def endurance(self) -> None:
        """Open and close many, and tell on the way what the gateway holds."""
        self.plan.progress(f"{self.plan.count:,} opened and closed")

        def seen(curve: Curve) -> None:
            self.plan.progress(endurance.told(curve))
            if self.plan.curve:
                report = Report(machine=machine(self.plan.version), curves=(curve,))
                with open(self.plan.curve, "w", encoding="utf-8") as stream:
                    json.dump([report.as_json()], stream)

        self.curves.append(await endurance.endurance(self.gateway("{}")[0], self.plan.count, seen))

    async def at_length(self) -> None:
        """Measure what takes a while: every tool, a busy machine, many callers, every door, a long log."""
        rounds, progress = self.plan.rounds, self.plan.progress
        gateway, _ = self.gateway("{}")
        await prepare(gateway)
        progress("every tool")
        series = await contest(tools(gateway), rounds)
        self.comparisons.append(
            Comparison(id="tools", what="Every kind of call, embedded", limit="exec", series=series)
        )
        progress("on a busy machine")
        self.comparisons.append(await _busy(gateway, rounds // 2))
        progress("1 to 64 callers")
        self.curves.append(await growth.callers(gateway, (1, 2, 4, 8, 16, 32, 64), 1.5))
        progress("every door")
        direct, _ = self.gateway("{}")
        state = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="crabpot-bench-"))
        try:
            self.comparisons += await doors.doors(direct, state, self.plan.reach, rounds)
        except CrabpotError as error:
            self.peers["the doors"] = {"absent": str(error)}
        await self.endurance()
        progress("a log of a million records")
        state = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="crabpot-bench-"))

        def long(most: int) -> Gateway:
            return self.plan.open_gateway(f"{{ audit: {{ rotate: {2 * most} }} }}", state)

        self.curves.append(await growth.records(long, state, (0, 10_000, 100_000, 1_000_000), rounds))


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


async def run(plan: BenchOptions) -> Report:
    """Measure. Whatever happens, nothing is left running."""
    stated = machine(plan.version) | ({"measured": f"{plan.only} alone"} if plan.only else {})
    async with AsyncExitStack() as stack:
        one = Run(plan=plan, stack=stack)
        if plan.only == "review":
            await one.review()
        elif plan.only == "commands":
            await one.one_command()
        elif plan.only == "servers":
            await one.servers()
        elif plan.only == "endurance":
            await one.endurance()
        else:
            await one.start_peers()
            await one.compare()
            await one.own()
            if plan.full:
                await one.at_length()
    held = rows.figures(one.comparisons, one.curves)
    return Report(
        machine=stated,
        peers=one.peers,
        figures=(*(row for row in held if plan.only is None or row.other is not None), *one.figures),
        comparisons=tuple(one.comparisons),
        curves=tuple(one.curves),
    )
