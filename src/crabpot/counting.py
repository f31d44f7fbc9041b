"""How a message says how many of something there are."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Give `1 warning`, `2 warnings`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
