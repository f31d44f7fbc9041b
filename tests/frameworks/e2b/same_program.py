"""The same program, on E2B's SDK and on ours: `main` takes what runs commands and keeps files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def main(write: Callable[[str, str], object], run: Callable[[str], str], read: Callable[[str], str]) -> str:
    """Sort numbers inside, and return them."""
    write("numbers.txt", "3\n1\n2\n")
    run("sort numbers.txt > sorted.txt")
    return run("wc -l < sorted.txt").strip() + ":" + ",".join(read("sorted.txt").split())
