"""The name of a sandbox: what people, files and containers call it."""

from __future__ import annotations

import hashlib
import re

# Where the state folder keeps private homes, and layers over folders under review.
HOMES, LAYERS = "homes", "layers"

_SHOWN = 32
_E2B = re.compile(r".*:e2b-[0-9a-f]{20}", re.DOTALL)


def of_e2b(scope_key: str) -> bool:
    """Return whether a sandbox was created by the E2B API, whose sessions end in its id."""
    return _E2B.fullmatch(scope_key) is not None


def sandbox_name(scope_key: str) -> str:
    """Return the name of a sandbox: readable, safe as a file and container name, and distinct."""
    shown = re.sub(r"[^a-z0-9._-]", "-", scope_key[:_SHOWN])
    digest = hashlib.sha256(scope_key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"crabpot-{shown}-{digest[:8]}"
