"""How much a result may contain: a frame's line is capped, and a result that does not fit would be lost whole."""

from __future__ import annotations

RESULT_LIMIT = 768 << 10
_PER_ITEM = 100  # names of fields, numbers, punctuation


class Budget:
    """Counts how many bytes the items of a result will take as JSON, erring on the high side."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = RESULT_LIMIT

    def take(self, *texts: str) -> bool:
        """Reserve room for one more item; return False if there is none."""
        self._left -= _PER_ITEM + sum(map(_json_size, texts))
        return self._left >= 0


def _json_size(text: str) -> int:
    if text.isascii() and text.isprintable():
        return len(text) + text.count('"') + text.count("\\") + 3
    return 3 * len(text.encode("utf-16-le", "surrogatepass")) + 3
