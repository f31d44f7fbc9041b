"""One cluster and namespace in use: its client, the gateway's lease, and what pods share, for as long as one lives."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from crabpot.backends.kubernetes import render
from crabpot.backends.kubernetes.errors import ClusterError, ClusterRefused
from crabpot.backends.kubernetes.owner import Owner

if TYPE_CHECKING:
    from crabpot.backends.kubernetes.bundle import Bundle
    from crabpot.backends.kubernetes.client import Cluster
    from crabpot.backends.kubernetes.facts import Facts
    from crabpot.backends.kubernetes.network import Control
    from crabpot.spec.spec import SandboxSpec

_NOT_FOUND, _CONFLICT = 404, 409


class Connection:
    """Used by every probe, opening and sandbox; whoever uses it last ends it, and nothing of it stays."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.owner = Owner(cluster, namespace)
        self.facts: Facts | None = None
        self.users = 0
        self.control: Control | None = None
        self.turn = asyncio.Lock()
        self.uids: dict[str, int] = {}
        """Whom each pod of this gateway's runs as, by its name."""
        self.own_bundles: dict[str, str] = {}
        """The bundles that one pod alone has, by its name: those with a sandbox's own authority."""
        self._made: dict[str, asyncio.Task[None]] = {}

    def path(self, kind: str, name: str = "", group: str = "/api/v1") -> str:
        """Return the path of an object, or of all of a kind."""
        base = f"{group}/namespaces/{self.namespace}/{kind}"
        return f"{base}/{name}" if name else base

    async def provide(self, spec: SandboxSpec, bundle: Bundle) -> tuple[dict[str, Any], ...]:
        """Have all in the cluster that a pod of this spec refers to; return the reference to the gateway's lease."""
        owner = await self.owner.hold()
        await self._once(self.path("configmaps"), bundle.as_map(self.owner.gateway, list(owner)))
        if spec.kubernetes.inet == "policy":
            networks = self.path("networkpolicies", group="/apis/networking.k8s.io/v1")
            await self._once(networks, render.policy(self.namespace))
        if spec.kubernetes.storage is not None and spec.layer is None:
            await self._create(self.path("persistentvolumeclaims"), render.claim(spec))
        return owner

    async def _once(self, path: str, body: dict[str, Any]) -> None:
        """Create what many pods share; a hundred openings at once wait for one request."""
        key = f"{path}/{body['metadata']['name']}"
        if key not in self._made:
            self._made[key] = asyncio.create_task(self._create(path, body))
        try:
            await asyncio.shield(self._made[key])
        except ClusterError:
            self._made.pop(key, None)
            raise

    async def _create(self, path: str, body: dict[str, Any]) -> None:
        try:
            await self.cluster.post(path, body)
        except ClusterRefused as error:
            if error.status != _CONFLICT:
                raise

    async def remove_pod(self, name: str) -> None:
        """Remove a pod that was made, and wait until its node has ended it."""
        try:
            await self._remove(self.path("pods", name))
        finally:
            self.uids.pop(name, None)
            await self._remove_bundle(self.own_bundles.pop(name, None))

    async def _remove(self, path: str) -> None:
        for _ in range(3):
            try:
                await self.cluster.delete(path, {"gracePeriodSeconds": 1})
                break
            except ClusterRefused as error:
                if error.status == _NOT_FOUND:
                    return
                break
            except ClusterError:
                # An API server that restarts is back in a moment; what is then still left ends with its lease.
                await asyncio.sleep(1.0)
        with contextlib.suppress(ClusterError):
            for pause in (0.3, 0.3, 0.5, 0.5, 1, 1, 2, 2, 5, 5, 10):
                await self.cluster.get(path)
                await asyncio.sleep(pause)

    async def _remove_bundle(self, name: str | None) -> None:
        path = self.path("configmaps", name or "")
        if name is not None and self._made.pop(path, None) is not None:
            with contextlib.suppress(ClusterError):
                await self.cluster.delete(path)

    async def close(self) -> None:
        """Remove what pods shared, and the lease, and end all connections."""
        if self.control is not None:
            await self.control.stream.close()
            await self.remove_pod(self.control.pod)
        names = [key for key in self._made if f"/configmaps/crabpot-{self.owner.gateway}" in key]
        for path in names:
            with contextlib.suppress(ClusterError):
                await self.cluster.delete(path)
        await self.owner.release()
        await self.cluster.close()
