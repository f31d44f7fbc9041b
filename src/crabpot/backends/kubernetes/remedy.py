"""What a person can do about what the cluster says: each failure as one sentence with the next step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.backends.kubernetes.errors import ClusterAway, ClusterError, ClusterRefused
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from crabpot.settings import Kubernetes

# The condition of a pod whose namespaces, without any container, are not there yet.
_NO_NAMESPACES = "PodReadyToStartContainers"
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404
_RIGHTS = "crabpot render kubernetes prints the rights that Crabpot needs"

_UNPULLED = "the image {image} cannot be pulled ({message}): push it, or correct kubernetes.image or imagePullSecret"
# Of a container that waits, by the kubelet's word for it.
_WAITING = {
    "ErrImagePull": _UNPULLED,
    "ImagePullBackOff": _UNPULLED,
    "ErrImageNeverPull": "the image {image} is not on the node: load it there",
    "InvalidImageName": "{image} is not the name of an image: correct kubernetes.image",
    "CreateContainerConfigError": "the container cannot be made: {message}",
    "CreateContainerError": "the container cannot be made: {message}",
    "RunContainerError": "the container does not start: {message}",
    "CrashLoopBackOff": "the container ends at once: {message}",
}


def explain(error: ClusterError, settings: Kubernetes) -> SandboxUnavailable:
    """Return the error for a person."""
    if isinstance(error, ClusterAway):
        return SandboxUnavailable(f"the cluster is away: {error}; is its API server up, and this machine's network?")
    if isinstance(error, ClusterRefused):
        return SandboxUnavailable(_refused(error, settings))
    return SandboxUnavailable(str(error))


def _refused(error: ClusterRefused, settings: Kubernetes) -> str:
    if error.status == _UNAUTHORIZED:
        why = "the token has expired, or is not its own; log in again"
        return f"the cluster does not take these credentials ({error}): {why}"
    if error.status == _FORBIDDEN and "violates PodSecurity" in str(error):
        return f"the namespace {settings.namespace} admits no such pod: {error}"
    if error.status == _FORBIDDEN and "exceeded quota" in str(error):
        return f"the namespace {settings.namespace} has no room left: {error}; raise its quota, or end sandboxes"
    if error.status == _FORBIDDEN and "RuntimeClass" in str(error):
        return (
            f"the cluster has no RuntimeClass {settings.runtime_class}: install it, or take kubernetes.runtimeClass out"
        )
    if error.status == _FORBIDDEN:
        return f"the cluster forbids it: {error}; {_RIGHTS}"
    if error.status == _NOT_FOUND and "namespaces" in str(error):
        name = settings.namespace
        return f"the cluster has no namespace {name}: kubectl create namespace {name}, or crabpot render kubernetes"
    return f"the cluster refused it ({error.status} {error.reason}): {error}"


def stuck(pod: dict[str, Any]) -> str | None:
    """Return why a pod will not come to run, or None while it may."""
    status = pod.get("status") or {}
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False" and one.get("reason") == "Unschedulable":
            return (
                f"no node takes it: {one.get('message')}; add nodes, end sandboxes, or lower limits.memoryReservation"
            )
    if status.get("phase") == "Failed":
        return f"the pod ended: {status.get('reason') or ''} {status.get('message') or ''}".strip()
    for one in status.get("containerStatuses") or ():
        if ended := (one.get("state") or {}).get("terminated"):
            code, said = ended.get("exitCode"), ended.get("message") or ended.get("reason")
            return f"the container ended with {code} ({said}): the image needs Python 3.9 or newer at /usr/bin/python3"
        waiting = (one.get("state") or {}).get("waiting") or {}
        sentence = _WAITING.get(str(waiting.get("reason")))
        if sentence is not None:
            return sentence.format(image=one.get("image"), message=waiting.get("message") or waiting.get("reason"))
    return None


def without_namespace(pod: dict[str, Any]) -> str | None:
    """Return what to say of a pod whose user namespace its node does not make, or None if it has one or wants none."""
    wants = (pod.get("spec") or {}).get("hostUsers") is False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    made = not any(one.get("type") == _NO_NAMESPACES and one.get("status") == "False" for one in conditions)
    if not wants or made:
        return None
    node = (pod.get("spec") or {}).get("nodeName")
    return (
        f"the node {node} makes no user namespace for a pod: it needs containerd 2.0 and runc 1.2, or CRI-O 1.25; "
        "take kubernetes.hostUsers out, or choose other nodes (kubernetes.nodeSelector)"
    )


def silent(pod: dict[str, Any], waited_s: float) -> str:
    """Return what to say of a pod that neither runs nor says why."""
    node = (pod.get("spec") or {}).get("nodeName")
    if node is None:
        return f"no node was chosen for the pod within {waited_s:g} s: is the cluster's scheduler running?"
    return (
        f"the pod does not run on the node {node} after {waited_s:g} s: is its kubelet running, or is the image "
        f"still being pulled? (kubectl describe node {node})"
    )
