"""The names under which agents see a server's tools, and names that imitate others. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from crabpot.decide.tools import ALIASES, BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterable

# As long as the strictest client takes.
LONGEST = 64
_DIGEST = 8
# What precedes a prompt's name among a server's words: no tool has a slash in its name.
PROMPTS = "prompts/"
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,128}", re.ASCII)


def exposed(server: str, tool: str) -> str:
    """Return `server__tool`, where that is too long with a digest at its end."""
    whole = f"{server}__{tool}"
    if len(whole) <= LONGEST:
        return whole
    return f"{whole[: LONGEST - _DIGEST - 1]}_{hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]}"


def refused(tools: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Return the tools of a server whose names are refused, each with why; `others` are the names of other servers."""
    said: dict[str, str] = {}
    ours = {*BUILT_IN, *ALIASES}
    foreign = {_folded(name): name for name in others}
    seen: dict[str, str] = {}
    for tool in tools:
        folded = _folded(tool)
        if tool.startswith(PROMPTS):
            if not _PLAIN.fullmatch(tool.removeprefix(PROMPTS)):
                said[tool] = "a prompt's name has letters, digits, _, - and ., at most 128"
            continue
        if not _PLAIN.fullmatch(tool):
            said[tool] = "a tool's name has letters, digits, _, - and ., at most 128"
        elif tool.lower() in ours:
            said[tool] = f"it imitates Crabpot's own tool {tool.lower()}"
        elif "__" in tool and (other := foreign.get(_folded(tool.partition("__")[0]))):
            said[tool] = f"it imitates a tool of the server {other}"
        elif tool.lower().startswith(("crabpot__", "mcp__")):
            said[tool] = "it imitates a tool of another server"
        elif folded in seen:
            said[tool] = f"it looks like the same server's {seen[folded]}"
        seen.setdefault(folded, tool)
    return said


def _folded(name: str) -> str:
    """Return a name without what the eye skips."""
    return re.sub("[-_.]", "", name.lower())
