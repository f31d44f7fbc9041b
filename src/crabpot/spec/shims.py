"""The shims of host commands inside a sandbox: their text, by path."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Iterable

# In the shell's own words: an agent calls git a hundred times for each push, and an interpreter takes long to start.
_SOME = """\
#!/bin/sh
{elsewhere}case "$1" in {listed}) {asks};; esac
set -f; IFS=:
for at in $PATH; do
    [ "$at" = {shims} ] || [ ! -f "$at/{name}" ] || [ ! -x "$at/{name}" ] || exec "$at/{name}" "$@"
done
echo "crabpot: {name}: not found in this sandbox" >&2
exit 127
"""
# `git -C DIR push` is `git push` in that folder.
_ELSEWHERE = 'if [ "$1" = -C ]; then case "$3" in {listed}) cd -- "$2" || exit 128; shift 2;; esac; fi\n'


def written(names: Iterable[str], *, interpreter: str, runner: str) -> dict[str, bytes]:
    """Return one for each command; all they do is ask, through the runner.

    Where only subcommands are listed, the others are carried out inside, by the next program of that name.
    """
    listed: dict[str, list[str]] = {}
    for one in names:
        name, _, subcommand = one.partition(" ")
        listed.setdefault(name, []).append(subcommand)
    program = f"exec {shlex.quote(interpreter)} -I -S {runner}/upcalls/shim.py"
    return {f"{hardening.SHIMS}/{name}": _text(name, some, program).encode() for name, some in listed.items()}


def _text(name: str, subcommands: list[str], program: str) -> str:
    asks = f'{program} {name} "$@"'
    if "" in subcommands:
        return f"#!/bin/sh\n{asks}\n"
    listed = "|".join(subcommands)
    elsewhere = _ELSEWHERE.format(listed=listed) if name == "git" else ""
    return _SOME.format(elsewhere=elsewhere, listed=listed, asks=asks, shims=hardening.SHIMS, name=name)
