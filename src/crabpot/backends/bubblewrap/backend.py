"""The lifecycle: what is found out once about the machine, judged for each spec, and opening a sandbox."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from crabpot.backends.base import greeting
from crabpot.backends.bubblewrap import bundle, layout, leftovers, overlay, probe_cache
from crabpot.backends.bubblewrap import clauses as table
from crabpot.backends.bubblewrap import user as users
from crabpot.backends.bubblewrap.walls import OpeningContext
from crabpot.backends.linux import cgroup_hierarchy, cgroups, disks, held_files
from crabpot.errors import SandboxUnavailable
from crabpot.frozen import dataclass
from crabpot.runner.core import landlock
from crabpot.scheduling.event_loop import in_loop
from crabpot.settings import Io
from crabpot.spec.spec import SandboxSpec, User

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping
    from typing import Any

    from crabpot.backends.base import Clause
    from crabpot.backends.bubblewrap.candidates import Chosen
    from crabpot.backends.bubblewrap.fork_server import ForkServer, ForkServers
    from crabpot.backends.bubblewrap.opening import NotStarted
    from crabpot.backends.bubblewrap.sandbox import BubblewrapSandbox
    from crabpot.layers.layer import Mechanism

# What opens a sandbox is imported when one is opened: reporting what this machine can do needs none of it.
# ruff: noqa: PLC0415

_DIAGNOSIS_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What was found out once.

    Without a bwrap, or without a Python for the inside, the reason is in its place.
    """

    context: OpeningContext | None
    chosen: Chosen | str
    # Why each bwrap that was tried opens no sandbox, by its path.
    passed_over: Mapping[str, str]
    kernel: tuple[int, int]
    landlock: int


class Bubblewrap:
    """Makes sandboxes with bwrap. Keeps its own files, and private workspaces, under `state`."""

    name = "bubblewrap"

    def __init__(self, *, state: str) -> None:
        self._home = f"{os.path.realpath(state)}/bubblewrap"
        self._findings = f"{self._home}/probe.json"
        self._machine: Machine | None = None
        # One for each event loop that sandboxes are opened in.
        self._servers: list[ForkServers] = []
        self._diagnosed = float("-inf")
        self._overlays = overlay.Trials(self._home)

    async def probe(self, spec: SandboxSpec) -> tuple[Clause, ...]:
        """Return for each clause of the spec whether this machine enforces, degrades or refuses it."""
        return table.clauses(spec, await self._find_out(spec, await self.look()))

    async def mechanism(self, spec: SandboxSpec) -> Mechanism:
        """Return how a folder is put under review: as its layer says, or as this machine can."""
        found = await self._find_out(spec, await self.look())
        return "copy" if found.review is None else found.review.mechanism

    async def open(self, spec: SandboxSpec) -> BubblewrapSandbox:
        """Make the sandbox and start its runner, or raise SandboxUnavailable."""
        from crabpot.backends.bubblewrap.opening import NotStarted, Opening, TooMuch

        machine = await self.look()
        found = await self._find_out(spec, machine)
        refused = [clause for clause in table.clauses(spec, found) if clause.state == "refused"]
        user = found.choice.user
        if refused or user is None or machine.context is None or isinstance(machine.chosen, str):
            reasons = "; ".join(f"{clause.name}: {clause.how}" for clause in refused)
            raise SandboxUnavailable(f"bubblewrap cannot open this sandbox: {reasons}")
        hello = _hello(spec, found)
        begin = partial(Opening, spec, machine.context, machine.chosen, user, found.review)
        server = await self._fork_server(machine.context, machine.chosen, user) if found.forks else None
        if server is not None:
            try:
                return await begin(server=server).run(hello)
            except TooMuch:
                pass  # For a message to a fork server; not for bwrap.
            except NotStarted as failure:
                if server.lives():
                    raise await self._diagnose(failure) from None
        try:
            return await begin().run(hello)
        except NotStarted as failure:
            raise await self._diagnose(failure) from None

    async def close(self) -> None:
        """End the fork servers. What they made has been closed by then."""
        while self._servers:
            self._servers.pop().close()

    async def _fork_server(self, context: OpeningContext, chosen: Chosen, user: User) -> ForkServer | None:
        """Return what makes a sandbox in bwrap's place, in half of the time; None if it does not start."""
        import asyncio

        from crabpot.backends.bubblewrap.fork_server import ForkServers

        loop = asyncio.get_running_loop()
        servers = next((one for one in self._servers if one.loop is loop), None)
        if servers is None:
            for old in [one for one in self._servers if one.loop.is_closed()]:
                self._servers.remove(old)
                old.close()
            servers = ForkServers(context.bundle, context.mark)
            self._servers.append(servers)
        try:
            return await servers.get(user, groupless=chosen.program.groupless)
        except (SandboxUnavailable, OSError):
            return None  # bwrap puts up the same walls.

    async def _find_out(self, spec: SandboxSpec, machine: Machine) -> table.Findings:
        found = self._judge(spec, machine)
        user, chosen = found.choice.user, machine.chosen
        if spec.layer is None or user is None or isinstance(chosen, str):
            return found
        judged = overlay.judge(spec, chosen.program, user, _owner(spec), machine.kernel)

        async def tries(layer: str) -> str | None:
            from crabpot.backends.bubblewrap import trial

            assert machine.context is not None
            return await trial.opening(replace(spec, layer=layer, mounts=()), machine.context, chosen, user, judged)

        return replace(found, review=await self._overlays.settle(spec, judged, tries))

    async def _diagnose(self, failure: NotStarted) -> SandboxUnavailable:
        """Probe again after what worked before failed, and return what prevents it."""
        if time.monotonic() < self._diagnosed + _DIAGNOSIS_S:
            # What an agent can make fail, by a link in the place of a mount, must not cost a second each time.
            return SandboxUnavailable(f"bubblewrap could not open this sandbox: {failure}")
        self._diagnosed = time.monotonic()
        probe_cache.forget(self._findings)
        self._machine = None
        machine = await self.look()
        if isinstance(machine.chosen, str):
            return SandboxUnavailable(f"bubblewrap cannot open this sandbox: {machine.chosen}")
        return SandboxUnavailable(f"bubblewrap could not open this sandbox: {failure}")

    def _judge(self, spec: SandboxSpec, machine: Machine) -> table.Findings:
        gateway = User(uid=os.geteuid(), gid=os.getegid())
        context, chosen = machine.context, machine.chosen
        return table.Findings(
            choice=users.choose(spec, gateway=gateway, owner=_owner(spec)),
            program=chosen if isinstance(chosen, str) else chosen.program,
            bwrap="" if isinstance(chosen, str) else chosen.candidate.path,
            passed_over=machine.passed_over,
            interpreter="" if context is None else context.bundle.interpreter.path,
            prefix=None if context is None else context.bundle.interpreter.prefix,
            hierarchy=None if context is None else context.hierarchy,
            kernel=machine.kernel,
            landlock=machine.landlock,
            groups=() if isinstance(chosen, str) or chosen.program.groupless else users.other_groups(),
            disk=None if spec.limits.io == Io() else cgroups.disk_of(disks.device_of(spec.layer or spec.workspace)),
        )

    async def look(self) -> Machine:
        """Find out about the machine, once: a hundred concurrent openings wait for one look."""
        if self._machine is None:
            self._machine = self._recall()
        if self._machine is None:
            await in_loop()
            async with self._looking:
                if self._machine is None:
                    self._machine = await self._survey()
        return self._machine

    @cached_property
    def _looking(self) -> asyncio.Lock:
        import asyncio

        return asyncio.Lock()

    def _recall(self) -> Machine | None:
        """Return what was found out before, if all of it is cached; waits for nothing."""
        try:
            ready = bundle.find(self._home)
        except SandboxUnavailable:
            return None
        chosen = None if ready is None else probe_cache.recall(self._findings, probe_cache.key(ready.folder))
        if ready is None or chosen is None:
            return None
        return _machine(self._make_context(ready), chosen, chosen.passed_over)

    async def _survey(self) -> Machine:
        try:
            ready = await bundle.prepare(self._home)
        except SandboxUnavailable as refusal:
            return _machine(None, str(refusal), {})
        context = self._make_context(ready)
        key = probe_cache.key(ready.folder)
        chosen = probe_cache.recall(self._findings, key)
        if chosen is None:
            from crabpot.backends.bubblewrap import trial
            from crabpot.backends.bubblewrap.probe import NoneWorks

            try:
                chosen = await trial.choose(context, self._home)
            except NoneWorks as failure:
                return _machine(context, str(failure), failure.passed_over)
            probe_cache.keep(self._findings, key, chosen)
        return _machine(context, chosen, chosen.passed_over)

    def _make_context(self, ready: bundle.Bundle) -> OpeningContext:
        """Look at the machine, and clear what gateways that died left on it."""
        leftovers.clear(self._home)
        place = cgroup_hierarchy.discover(cgroup_hierarchy.Proc.here())
        if place is not None:
            cgroups.reap(place)
        prefix = ready.interpreter.prefix
        return OpeningContext(
            mark=leftovers.Mark(self._home),
            bundle=ready,
            layout=layout.look(ready.interpreter.path, *(() if prefix is None else (prefix,))),
            hierarchy=place,
        )


def _machine(context: OpeningContext | None, chosen: Chosen | str, passed_over: Mapping[str, str]) -> Machine:
    release = os.uname().release.split(".")
    kernel = (int(release[0]), int("".join(c for c in release[1] if c.isdigit()) or 0))
    return Machine(context=context, chosen=chosen, passed_over=passed_over, kernel=kernel, landlock=landlock.version())


def _owner(spec: SandboxSpec) -> User | None:
    owned = None if spec.private else held_files.owner_of(spec.workspace)
    return None if owned is None else User(uid=owned[0], gid=owned[1])


def _hello(spec: SandboxSpec, found: table.Findings) -> dict[str, Any]:
    """Return the runner's greeting.

    Where a control group counts processes, or this kernel would count the host's, it has no process limit.
    """
    hello = greeting(spec)
    counted = found.hierarchy is not None and "pids" in found.hierarchy.folders
    if counted or found.kernel < table.NAMESPACED_COUNT:
        hello["limits"]["processes"] = None
    return hello
