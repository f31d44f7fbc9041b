"""The least rights that sandboxes need in their namespace, for the gateway to check and for a role to grant. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabpot.settings import Kubernetes

Right = tuple[str, str, str, tuple[str, ...]]
# (group, resource, subresource, verbs): the least that sandboxes need, which `crabpot render kubernetes` grants.
RIGHTS: tuple[Right, ...] = (
    ("", "pods", "", ("create", "get", "list", "watch", "delete", "patch")),
    ("", "pods", "exec", ("create", "get")),
    ("", "configmaps", "", ("create", "get", "list", "delete")),
    ("coordination.k8s.io", "leases", "", ("create", "get", "list", "patch", "delete")),
)
FOR_POLICY = ("networking.k8s.io", "networkpolicies", "", ("get", "create"))
FOR_STORAGE = ("", "persistentvolumeclaims", "", ("get", "create"))


def needed(settings: Kubernetes) -> tuple[Right, ...]:
    """Return the rights that these settings need."""
    policy = (FOR_POLICY,) if settings.inet == "policy" else ()
    return (*RIGHTS, *policy, *((FOR_STORAGE,) if settings.storage is not None else ()))
