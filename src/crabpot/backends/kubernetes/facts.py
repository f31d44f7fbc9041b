"""What is read from a cluster before anything is made there: its version, the namespace, and the rights in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.backends.kubernetes.errors import ClusterRefused
from crabpot.backends.kubernetes.rights import needed
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from crabpot.backends.kubernetes.client import Cluster
    from crabpot.backends.kubernetes.rights import Right
    from crabpot.settings import Kubernetes

_LEVEL = "pod-security.kubernetes.io/enforce"
_FORBIDDEN, _NOT_FOUND = 403, 404
_PLUGINS = ("cilium", "calico", "antrea", "weave", "kube-router", "flannel", "kindnet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A cluster and one namespace of it."""

    server: str
    version: str
    namespace: str
    level: str | None
    """The Pod Security level that the namespace enforces; None if it cannot be read."""


async def find_out(cluster: Cluster, settings: Kubernetes) -> Facts:
    """Read the facts; SandboxUnavailable names each right that is missing."""
    version = await cluster.get("/version")
    lacking = await missing(cluster, settings)
    if lacking:
        raise SandboxUnavailable(
            f"{cluster.source} lacks rights in the namespace {settings.namespace}: {', '.join(lacking)}; "
            "crabpot render kubernetes prints a role that has them"
        )
    return Facts(
        server=cluster.server,
        version=str(version.get("gitVersion")),
        namespace=settings.namespace,
        level=await _level(cluster, settings.namespace),
    )


async def missing(cluster: Cluster, settings: Kubernetes) -> list[str]:
    """Return each right that is missing, such as "create pods/exec"."""
    wanted = [(right, verb) for right in needed(settings) for verb in right[3]]
    granted = await asyncio.gather(*(_may(cluster, settings.namespace, right, verb) for right, verb in wanted))
    return [f"{verb} {_name(right)}" for (right, verb), ok in zip(wanted, granted, strict=True) if not ok]


def _name(right: Right) -> str:
    return f"{right[1]}/{right[2]}" if right[2] else right[1]


async def _may(cluster: Cluster, namespace: str, right: Right, verb: str) -> bool:
    group, resource, sub, _ = right
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": sub}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    said = await cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return said["status"].get("allowed") is True


async def _level(cluster: Cluster, namespace: str) -> str | None:
    try:
        said = await cluster.get(f"/api/v1/namespaces/{namespace}")
    except ClusterRefused as error:
        if error.status == _NOT_FOUND:
            raise SandboxUnavailable(
                f"the cluster has no namespace {namespace}: crabpot render kubernetes prints one, and more"
            ) from None
        if error.status == _FORBIDDEN:
            return None
        raise
    return str((said["metadata"].get("labels") or {}).get(_LEVEL, "privileged"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a person wants to know of a cluster before sandboxes are made there."""

    server: str
    version: str
    namespace: str
    level: str | None
    lacking: tuple[str, ...]
    runtimes: tuple[str, ...] | None
    """Its RuntimeClasses; None if they may not be listed."""
    plugin: str | None
    """The network plugin, by what runs in kube-system; None if that cannot be seen."""


async def survey(cluster: Cluster, settings: Kubernetes) -> Survey:
    """Look at a cluster, and make nothing there."""
    version = await cluster.get("/version")
    lacking = await missing(cluster, settings)
    runtimes = await _names(cluster, "/apis/node.k8s.io/v1/runtimeclasses")
    agents = await _names(cluster, "/apis/apps/v1/namespaces/kube-system/daemonsets") or ()
    return Survey(
        server=cluster.server,
        version=str(version.get("gitVersion")),
        namespace=settings.namespace,
        level=await _level(cluster, settings.namespace),
        lacking=tuple(lacking),
        runtimes=runtimes,
        plugin=next((known for known in _PLUGINS if any(known in name for name in agents)), None),
    )


async def _names(cluster: Cluster, path: str) -> tuple[str, ...] | None:
    try:
        said = await cluster.get(path)
    except ClusterRefused:
        return None
    return tuple(str(one["metadata"]["name"]) for one in said.get("items") or ())
