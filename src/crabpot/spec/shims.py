"""The shims of host commands inside a sandbox: their text, by path."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Iterable


def written(names: Iterable[str], *, interpreter: str, runner: str) -> dict[str, bytes]:
    """Return one for each name; all they do is ask, through the runner."""
    program = f"exec {shlex.quote(interpreter)} -I -S {runner}/upcalls/shim.py"
    return {f"{hardening.SHIMS}/{name}": f'#!/bin/sh\n{program} {name} "$@"\n'.encode() for name in names}
