"""Measure searches beside ripgrep itself, over trees that both see: the same files, the same answers."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from bench.contest import Entrant, contest, spawning
from bench.entrants import calling
from bench.figures import Comparison
from crabpot.spec.hardening import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.gateway import Gateway

_IN_EACH, _LINES, _FOUND = 100, 40, 50
_PATTERN, _GLOB = "needle", "**/*7.txt"


async def search(
    open_gateway: Callable[[str], Gateway], folder: str, sizes: tuple[int, ...], rounds: int
) -> list[Comparison]:
    """Measure `grep` and `glob` over trees of each size, made below `folder`."""
    made = []
    for size in sizes:
        tree = _tree(f"{folder}/{size}", size)
        sandbox = {"workspace": "rw", "backend": "bubblewrap"}
        gateway = open_gateway(json.dumps({"agents": {"defaults": {"workspace": tree, "sandbox": sandbox}}}))
        entrants = [
            _ripgrep("rg, and one spawn", tree, "--line-number", _PATTERN),
            calling(gateway, "crabpot grep", "grep", {"pattern": _PATTERN, "limit": _FOUND}),
            _ripgrep("rg --files, and one spawn", tree, "--files", "--glob", _GLOB),
            calling(gateway, "crabpot glob", "glob", {"pattern": _GLOB}),
        ]
        series = await contest(entrants, max(4, rounds // 2) if size == min(sizes) else 3)
        made.append(Comparison(id=f"search-{size}", what=f"Searching {size:,} files", limit="", series=series))
    return made


def _ripgrep(name: str, tree: str, *words: str) -> Entrant:
    return Entrant(name=name, block=spawning(["sh", "-c", 'cd "$0" && rg "$@" ./ && exit', tree, *words]))


def _tree(folder: str, files: int) -> str:
    for number in range(files):
        inner = f"{folder}/{number // _IN_EACH}"
        if number % _IN_EACH == 0:
            os.makedirs(inner)
        with open(f"{inner}/{number}.txt", "w", encoding="utf-8") as file:
            file.writelines(f"line {line} of file {number}\n" for line in range(_LINES))
            if number % (files // _FOUND) == 0:
                file.write(f"a {_PATTERN}\n")
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    return folder
