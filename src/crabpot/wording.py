"""Wording shared by messages: singular and plural, and "did you mean"."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 64


def counted(number: int, noun: str) -> str:
    """Return the number and the noun, as in `1 warning` or `2 warnings`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def closest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean "…"?`, or an empty string if no name is close."""
    if len(word) > _LONGEST:
        # No name is this long, and an agent that sends megabytes must not make the gateway compare them.
        return ""
    from difflib import get_close_matches  # noqa: PLC0415  only needed for errors

    lowered = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return f'; did you mean "{lowered[near[0]]}"?' if near else ""


def one_of(names: Iterable[str]) -> str:
    """Return `; use one of …`, for a word that no name is close to."""
    listed = ", ".join(names)
    return f"; use one of {listed}" if listed else ""
