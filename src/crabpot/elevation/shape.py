"""The shape of folders that an agent writes: what in it could lead a program that already runs there out of them.

A program looks at a folder once and writes into it for long. An agent that swaps the folder for a link in between, or
moves it up so that `..` means another, has the program write to the operator's files (OpenClaw CVE-2026-44112).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Beyond that, looking takes longer than a person waits for.
_MOST_ENTRIES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Links that lead out, and how deep each folder lies."""

    links: frozenset[tuple[str, str]]
    depths: Mapping[tuple[str, int], int]


def look(roots: Iterable[str]) -> Shape:
    """Look at folders in which nothing moves for now."""
    trees = tuple(dict.fromkeys(os.path.realpath(root) for root in roots))
    links: set[tuple[str, str]] = set()
    depths: dict[tuple[str, int], int] = {}
    seen = 0
    for tree in trees:
        todo = [(tree, 1)]
        while todo:
            folder, depth = todo.pop()
            for entry in _entries(folder):
                seen += 1
                if entry.is_symlink():
                    if not _is_in(os.path.realpath(entry.path), trees):
                        links.add((entry.path, os.readlink(entry.path)))
                elif entry.is_dir(follow_symlinks=False):
                    depths[tree, entry.inode()] = depth
                    todo.append((entry.path, depth + 1))
            if seen > _MOST_ENTRIES:
                raise HostRefused("denied", f"{tree} holds too many files to see what changes in it")
    return Shape(links=frozenset(links), depths=depths)


def check(before: Shape, after: Shape) -> None:
    """Refuse what leads out now and did not before."""
    for path, target in sorted(after.links - before.links):
        raise HostRefused("conflict", f"{path} became a link to {target} while the command ran; it was ended")
    for (tree, inode), depth in after.depths.items():
        if depth < before.depths.get((tree, inode), 0):
            raise HostRefused("conflict", f"a folder in {tree} was moved up while the command ran; it was ended")


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise HostRefused("conflict", f"{folder} cannot be looked at: {error.strerror}") from None


def _is_in(path: str, trees: Iterable[str]) -> bool:
    return any(path == tree or path.startswith(f"{tree}/") for tree in trees)
