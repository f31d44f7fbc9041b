"""The name of a sandbox, and what may name a variable, a package or an image: no name is ever read as an option."""

from __future__ import annotations

import hashlib
import re

# Where the state folder keeps private workspaces and homes, and layers over folders under review.
SANDBOXES, HOMES, LAYERS = "sandboxes", "homes", "layers"

_SHOWN = 32
_E2B = re.compile(r".*:e2b-[0-9a-f]{20}", re.DOTALL)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DOCKER_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}", re.ASCII)
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]{1,127}", re.ASCII)


def of_e2b(scope_key: str) -> bool:
    """Return whether a sandbox was created by the E2B API, whose sessions end in its id."""
    return _E2B.fullmatch(scope_key) is not None


def sandbox_name(scope_key: str) -> str:
    """Return the name of a sandbox: readable, safe as a file and container name, and distinct."""
    shown = re.sub(r"[^a-z0-9._-]", "-", scope_key[:_SHOWN])
    digest = hashlib.sha256(scope_key.encode("utf-8", "surrogatepass")).hexdigest()
    return f"crabpot-{shown}-{digest[:8]}"


def private_folder(state: str, name: str) -> str:
    """Return the folder that a sandbox of this name has for its own."""
    return f"{state}/{SANDBOXES}/{name}"


def taken_by_another(what: str) -> str:
    """Return the refusal of what has a session's name and is another session's.

    The agent reads it, and the other session may be another agent's: it says how an operator finds out whose.
    """
    return f"{what} belongs to another session (`crabpot sandboxes list` says which); give this session another key"


def is_variable_name(name: str) -> bool:
    """Return whether this can name an environment variable."""
    return _ENV_NAME.fullmatch(name) is not None


def is_package_name(text: str) -> bool:
    """Return whether this is a valid Debian package name; nothing in such a name means anything to a shell."""
    return _PACKAGE.fullmatch(text) is not None


def is_docker_word(text: str) -> bool:
    """Return whether docker takes this for the name of an image or of a profile, and never for an option."""
    return _DOCKER_WORD.fullmatch(text) is not None
