"""What an operator should look at twice in a server's words: hidden characters, and orders to the model. Pure.

A list of phrases proves nothing by its silence. The wall is that nobody but an operator lets a server's words pass.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from crabpot.decide.commands import is_deceptive, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_USUAL = frozenset("\n\r\t")
_MOST = 12
_ORDERS = {
    "orders to the model": r"ignore (?:all|any|previous|prior)|disregard|you must|always (?:call|use|include|pass)"
    r"|before (?:using|calling|you)|<(?:important|system|instructions?|secret)\b|system prompt|your instructions",
    "asks for secrecy": r"do(?:n't| not) (?:tell|mention|inform|reveal|notify|show)"
    r"|without (?:telling|asking)|silently",
    "speaks of credentials": r"\.ssh|id_rsa|id_ed25519|\.aws|\.env\b|\.netrc|api[ _-]?key|private key"
    r"|passwords?\b|token",
    "speaks of other tools": r"instead of (?:the )?\w+|other (?:tools?|servers?)|any other tool",
    "has text to decode": r"base64|data:[a-z]+/|[A-Za-z0-9+/]{120,}",
}
_PATTERNS = {what: re.compile(pattern, re.IGNORECASE) for what, pattern in _ORDERS.items()}


def hidden(text: str) -> list[str]:
    """Return the names of the characters in a text that nobody sees, or that change how others look."""
    found = dict.fromkeys(char for char in text if char not in _USUAL and is_deceptive(char))
    return [name_of(char) for char in found][:_MOST]


def marks(described: Any) -> list[str]:
    """Return what is suspicious in all that a server says of a tool, as sentences for an operator."""
    said: dict[str, None] = {}
    for text in _texts(described):
        if names := hidden(text):
            said[f"hidden characters: {', '.join(names)}"] = None
        for what, pattern in _PATTERNS.items():
            if found := pattern.search(text):
                said[f'{what}: "{found[0][:60]}"'] = None
    return list(said)[:_MOST]


def _texts(value: Any) -> Iterator[str]:
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            todo += one
