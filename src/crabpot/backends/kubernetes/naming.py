"""What Crabpot's objects in a cluster are called, and the labels that say whose each is."""

from __future__ import annotations

import re

SCOPE, SPEC, GATEWAY = "crabpot.dev/scope", "crabpot.dev/spec", "crabpot.dev/gateway"
# On pods that no sandbox is in: what a probe of the network connects to.
CONTROL = "crabpot.dev/control"
# The whole scope key, where a label has no room for it.
KEY = "crabpot.dev/scope-key"
MANAGED = {"app.kubernetes.io/managed-by": "crabpot"}
POLICY = "crabpot-deny-all"
CONTAINER = "sandbox"

_LONGEST = 52


def pod(name: str, unique: str) -> str:
    """Return the name of a pod: the sandbox's, as a cluster takes it, and a word that no other pod of it has."""
    return f"{_label(name)}-{unique}"


def claim(name: str) -> str:
    """Return the name of a scope's volume claim."""
    return _label(name)


def lease(gateway: str) -> str:
    """Return the name of a gateway's lease."""
    return f"crabpot-{gateway}"


def bundle(gateway: str, digest: str) -> str:
    """Return the name of the files of one version that a gateway puts into its pods."""
    return f"crabpot-{gateway}-{digest[:12]}"


def _label(name: str) -> str:
    # The digest at the end keeps two names apart that differ in a replaced character alone.
    readable, _, digest = name.rpartition("-")
    return f"{re.sub(r'[^a-z0-9-]+', '-', readable)[: _LONGEST - 9].strip('-')}-{digest}"
