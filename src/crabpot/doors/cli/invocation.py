"""How this program was called, so that a hint can be pasted as it is."""

from __future__ import annotations

import os
import re
import shlex
import sys

# The wrapper of a checkout says what it was called as.
CALLED = "CRABPOT_CALLED"
# `crabpot` before a command's name, not in a path or a longer word.
_COMMAND = re.compile(
    r"(?<![\w/.-])crabpot (?=(?:--|approvals|audit|changes|check|config|cp|doctor|exec|explain|fork|image|init|leases|"
    r"mcp|ports|prefix|purge|render|run|sandboxes|secrets|serve|shell|snapshots|tokens|verify)\b)"
)


def program() -> str:
    """Return the program as it was called, ready for a shell: `crabpot` if that is what the shell finds."""
    called = os.environ.get(CALLED) or sys.argv[0]
    if os.path.basename(called) != "crabpot":
        return "crabpot"
    # By what stands on the shell's path: searched only where the name has a folder.
    found = any(os.path.join(folder, "crabpot") == called for folder in os.environ.get("PATH", "").split(":"))
    return "crabpot" if found or "/" not in called else shlex.quote(called)


def pasted(text: str) -> str:
    """Return a text with the commands in it as they can be pasted."""
    return _COMMAND.sub(lambda _: f"{program()} ", text)


def on(state: str) -> str:
    """Return the program with the option that names this state folder, where it is not the one found without it."""
    from crabpot.config.places import find_state  # noqa: PLC0415  most commands give no hint

    home = os.environ.get("HOME") or os.path.expanduser("~")
    usual = find_state(None, os.environ, home)
    return program() if state == usual else f"{program()} --state {shlex.quote(state)}"
