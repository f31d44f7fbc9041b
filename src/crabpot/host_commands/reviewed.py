"""Which commands of a session under review, or in a pod, may run on the host: those that look at no folder there.

A folder under review is not what the agent sees until a person applies the changes, and must not change before; a pod's
private folder is on another machine. Relayed git works with the sandbox's own repository; a program that needs no
folder gets an empty one; every other is refused.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.decide.known_programs import needs_no_folder
from crabpot.errors import HostRefused
from crabpot.host_commands.git import operation as operations
from crabpot.state.ownership import make_own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabpot.spec.spec import SandboxSpec

_EMPTY = "empty"


def is_relayed(argv: Sequence[str], *, confined: bool) -> bool:
    """Return whether git takes the relay, which reads nothing of the folder; HostRefused if it cannot be parsed."""
    return confined and argv[0] == "git" and operations.read(argv) is not None


def check(argv: Sequence[str], *, confined: bool, in_pod: bool = False) -> None:
    """Refuse a command that would look at the folder."""
    if is_relayed(argv, confined=confined) or needs_no_folder(tuple(argv)):
        return
    if in_pod:
        raise HostRefused(
            "denied",
            f"{argv[0]} would work in this session's folder, which is in a pod and not on this machine; run it inside, "
            "or bring the files here with crabpot cp",
        )
    raise HostRefused(
        "denied",
        f"{argv[0]} would work in the host's folder, which is under review and not yet what this session sees; "
        "a person must apply first: crabpot changes apply",
    )


def with_own_folder(spec: SandboxSpec, state: str) -> SandboxSpec:
    """Return the spec with an empty folder of its scope's: what was agreed to for longer is known by its folder."""
    made = os.path.join(state, _EMPTY, spec.name)
    make_own(made)
    return replace(spec, workspace=os.path.realpath(made))


def with_empty_folder(spec: SandboxSpec, state: str, *, shared: bool) -> SandboxSpec:
    """Return the spec with a new empty folder in place of the one under review; `shared` with another user."""
    above = None if shared else os.path.join(state, _EMPTY)
    if above is not None:
        make_own(above)
    made = tempfile.mkdtemp(prefix="crabpot-", dir=above)
    if shared:
        os.chmod(made, 0o755)  # noqa: S103  nothing is in it, and nobody else may write
    return replace(spec, workspace=os.path.realpath(made), private=True, layer=None)
