"""The gateway's lease: who it is in the cluster, and what a gateway that is gone left there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crabpot.backends.kubernetes import naming
from crabpot.backends.kubernetes.errors import ClusterError, ClusterRefused

if TYPE_CHECKING:
    from crabpot.backends.kubernetes.client import Cluster

# A gateway that did not renew for this long is gone; machines' clocks may differ by as much again.
DURATION_S = 60
_RENEW_S = 15.0
_SURE_S = 2 * DURATION_S
_NOT_FOUND, _CONFLICT = 404, 409


class Owner:
    """One gateway in one namespace. Its lease is made before its first pod, and removed with its last."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.gateway = os.urandom(8).hex()
        self._cluster = cluster
        self._namespace = namespace
        self._uid: str | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def hold(self) -> tuple[dict[str, Any], ...]:
        """Hold the lease; return the reference to it for objects that shall end with it."""
        async with self._turn:
            if self._uid is None:
                made = await self._cluster.post(self._path(), self._lease())
                self._uid = str(made["metadata"]["uid"])
                self._renewing = asyncio.create_task(self._renew())
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        return ({**kind, "name": naming.lease(self.gateway), "uid": self._uid},)

    def _path(self, name: str = "") -> str:
        base = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"
        return f"{base}/{name}" if name else base

    def _lease(self) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": naming.lease(self.gateway),
                "labels": {**naming.MANAGED, naming.GATEWAY: self.gateway},
            },
            "spec": {
                "holderIdentity": f"{socket.gethostname()}/{os.getpid()}",
                "leaseDurationSeconds": DURATION_S,
                "renewTime": now,
            },
        }

    async def _renew(self) -> None:
        patch = "application/merge-patch+json"
        while True:
            await asyncio.sleep(_RENEW_S)
            body = {"spec": self._lease()["spec"]}
            # An API server that is away now may be back before the lease is over.
            with contextlib.suppress(ClusterError):
                await self._cluster.request("PATCH", self._path(naming.lease(self.gateway)), body=body, kind=patch)

    async def release(self) -> None:
        """Remove the lease: the cluster removes what is still its own."""
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        if self._uid is not None:
            self._uid = None
            with contextlib.suppress(ClusterError):
                await self._cluster.delete(self._path(naming.lease(self.gateway)))

    async def reap(self) -> list[str]:
        """Remove what gateways left that are gone, and nothing else; return the names of their pods."""
        leases = await self._listed(self._path(), naming.GATEWAY)
        alive = {_gateway(one) for one in leases if not _is_over(one)}
        gone: list[str] = []
        base = f"/api/v1/namespaces/{self._namespace}"
        for kind in ("pods", "configmaps"):
            for one in await self._listed(f"{base}/{kind}", naming.GATEWAY):
                if _gateway(one) not in alive and _is_old(one):
                    await self._remove(f"{base}/{kind}/{one['metadata']['name']}", one)
                    gone += [one["metadata"]["name"]] if kind == "pods" else []
        for one in leases:
            if _is_over(one):
                await self._remove(self._path(one["metadata"]["name"]), one)
        return gone

    async def _listed(self, path: str, label: str) -> list[dict[str, Any]]:
        query = {"labelSelector": f"{label},app.kubernetes.io/managed-by=crabpot"}
        return list((await self._cluster.get(path, query)).get("items") or ())

    async def _remove(self, path: str, one: dict[str, Any]) -> None:
        # By its identity too: what has the name by now may be another's.
        body = {"preconditions": {"uid": one["metadata"]["uid"]}}
        try:
            await self._cluster.delete(path, body)
        except ClusterRefused as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise


def _gateway(one: dict[str, Any]) -> str:
    return str(one["metadata"]["labels"][naming.GATEWAY])


def _is_over(lease: dict[str, Any]) -> bool:
    return _age_s(lease["spec"].get("renewTime")) > _SURE_S


def _is_old(one: dict[str, Any]) -> bool:
    # A pod may be listed before the lease that was made before it.
    return _age_s(one["metadata"].get("creationTimestamp")) > _SURE_S


def _age_s(moment: object) -> float:
    try:
        then = datetime.fromisoformat(str(moment))
    except ValueError:
        return 0.0
    return (datetime.now(UTC) - then).total_seconds()
