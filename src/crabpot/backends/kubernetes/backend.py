"""The lifecycle: which cluster, what is judged for each spec, and opening a sandbox."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crabpot.backends.base import greeting
from crabpot.backends.kubernetes import clauses as table
from crabpot.backends.kubernetes import facts as machine
from crabpot.backends.kubernetes import kubeconfig, pods, remedy
from crabpot.backends.kubernetes.errors import ClusterError
from crabpot.errors import SandboxUnavailable
from crabpot.spec.naming import sandbox_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from crabpot.backends.base import Clause
    from crabpot.backends.kubernetes.connection import Connection
    from crabpot.backends.kubernetes.inspection import Report
    from crabpot.backends.kubernetes.sandbox import PodSandbox
    from crabpot.layers.layer import Mechanism
    from crabpot.settings import Kubernetes as Settings
    from crabpot.spec.spec import SandboxSpec

# An API server takes many at once; a node starts containers one after the other.
_AT_ONCE = 16
_PROBE = "probe"
# A policy that was seen to be ignored is ignored a moment later too, and each look at it takes half a minute.
_REFUSED_S = 60.0
_DEVICES = tuple(f"/dev/{name}" for name in "null zero full random urandom tty ptmx pts shm mqueue".split())
_EXTRA = "the kubernetes backend needs packages of its own: pip install 'crabpot[kubernetes]'"


class Kubernetes:
    """Makes sandboxes in a cluster. Does not contact it before the first probe or opening."""

    name = "kubernetes"

    def __init__(self, *, environ: Mapping[str, str], home: str) -> None:
        self._environ = environ
        self._home = home
        self._connections: dict[tuple[str | None, str], Connection] = {}
        self._looking = asyncio.Lock()
        self._seen: dict[str, table.Findings] = {}
        self._refused: dict[str, tuple[float, table.Findings]] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def probe(self, spec: SandboxSpec) -> tuple[Clause, ...]:
        """Return for each clause of the spec whether this cluster enforces, degrades or refuses it."""
        return table.clauses(spec, await self._judge(spec))

    async def mechanism(self, spec: SandboxSpec) -> Mechanism:  # noqa: ARG002  the same for every folder
        """Return that a folder under review is a copy: a pod has it in another place."""
        return "copy"

    async def close(self) -> None:
        """Do nothing: it keeps nothing between openings."""

    async def open(self, spec: SandboxSpec) -> PodSandbox:
        """Make the sandbox and start its runner, or raise SandboxUnavailable."""
        from crabpot.backends.kubernetes import opening  # noqa: PLC0415  of the extra
        from crabpot.backends.kubernetes.sandbox import PodSandbox  # noqa: PLC0415

        refused = [clause for clause in await self.probe(spec) if clause.state == "refused"]
        if refused:
            reasons = "; ".join(f"{clause.name}: {clause.how}" for clause in refused)
            raise SandboxUnavailable(f"kubernetes cannot open this sandbox: {reasons}")
        connection = await self._take(spec.kubernetes)
        try:
            async with self._turn:
                opened = await opening.open_pod(connection, spec)
        except BaseException:
            await asyncio.shield(self._release(connection))
            raise
        return PodSandbox(opened, _hello(spec), spec.limits, lambda: self._release(connection))

    async def survey(self, settings: Settings) -> machine.Survey:
        """Return what is to know of a cluster, for the doctor; SandboxUnavailable says why it cannot be looked at."""
        connection = self._connect(settings)
        try:
            return await machine.survey(connection.cluster, settings)
        except ClusterError as error:
            raise remedy.explain(error, settings) from None
        finally:
            await connection.close()

    async def _judge(self, spec: SandboxSpec) -> table.Findings:
        """Find out, by a pod of its own, how clauses are kept; once for all specs that differ in their scope alone."""
        kind = _kind(spec)
        async with self._looking:
            if kind.family in self._seen:
                return self._seen[kind.family]
            when, refused = self._refused.get(kind.family, (-_REFUSED_S, None))
            if refused is not None and time.monotonic() - when < _REFUSED_S:
                return refused
            try:
                async with self._using(spec.kubernetes) as connection:
                    assert connection.facts is not None
                    found = table.Findings(facts=connection.facts)
                    if not tuple(table.refusals(spec)):
                        found = replace(found, **await self._look(connection, kind))
            except SandboxUnavailable as refusal:
                return table.Findings(facts=str(refusal))
            if found.refused:
                self._refused[kind.family] = (time.monotonic(), found)
            if isinstance(found.report, str) or found.refused:
                return found  # It may be mended; a call looks again, soon.
            self._seen[kind.family] = found
            return found

    @staticmethod
    async def _look(connection: Connection, spec: SandboxSpec) -> dict[str, Any]:
        from crabpot.backends.kubernetes import opening  # noqa: PLC0415  of the extra

        own = replace(spec.kubernetes, storage=None)
        probe = replace(spec, scope_key=_PROBE, name=sandbox_name(_PROBE), kubernetes=own)
        try:
            opened = await opening.open_pod(connection, probe)
        except pods.NotKept as refusal:
            return {"refused": refusal.clauses}
        except SandboxUnavailable as refusal:
            return {"report": str(refusal)}
        report: Report = opened.report
        await opened.close()
        return {"report": report}

    @asynccontextmanager
    async def _using(self, settings: Settings) -> AsyncIterator[Connection]:
        connection = await self._take(settings)
        try:
            yield connection
        finally:
            await asyncio.shield(self._release(connection))

    async def _take(self, settings: Settings) -> Connection:
        """Return the connection that all use, and count one user more; SandboxUnavailable if there is none."""
        key = (settings.context, settings.namespace)
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = self._connect(settings)
        connection.users += 1
        try:
            async with connection.turn:
                if connection.facts is None:
                    await _begin(connection, settings)
        except BaseException:
            await asyncio.shield(self._release(connection))
            raise
        return connection

    def _connect(self, settings: Settings) -> Connection:
        try:
            from crabpot.backends.kubernetes.client import Cluster  # noqa: PLC0415  of the extra
            from crabpot.backends.kubernetes.connection import Connection  # noqa: PLC0415

            login = kubeconfig.find(settings.context, self._environ, self._home)
        except ImportError as error:
            raise SandboxUnavailable(f"{_EXTRA} ({error})") from None
        return Connection(Cluster(login, self._environ), settings.namespace)

    async def _release(self, connection: Connection) -> None:
        connection.users -= 1
        if connection.users == 0:
            for key, one in list(self._connections.items()):
                if one is connection:
                    del self._connections[key]
            await connection.close()


def _kind(spec: SandboxSpec) -> SandboxSpec:
    """Return what is looked at for a spec: a layer is one scope's, and changes nothing of how its pod is walled in."""
    return spec if spec.layer is None else replace(spec, layer=None, private=True, workspace="")


async def _begin(connection: Connection, settings: Settings) -> None:
    try:
        connection.facts = await machine.find_out(connection.cluster, settings)
        # What cannot be reaped now is tried by the next gateway.
        with suppress(ClusterError):
            await connection.owner.reap()
    except ClusterError as error:
        raise remedy.explain(error, settings) from None


def _hello(spec: SandboxSpec) -> dict[str, Any]:
    """Return the runner's greeting. Of the node's /dev only what programs need is writable."""
    hello = greeting(spec)
    hello["writable"] = [path for path in hello["writable"] if path != "/dev"] + list(_DEVICES)
    return hello
