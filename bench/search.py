"""Measure searches beside ripgrep itself, over trees that both see: the same files, the same answers."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from bench.contest import Entrant, contest, one_by_one, spawning
from bench.entrants import calling
from bench.figures import Comparison
from crabpot.errors import CrabpotError
from crabpot.runner.files.context import Context
from crabpot.runner.search import search_tools
from crabpot.spec.hardening import NOBODY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.gateway import Gateway

_IN_EACH, _LINES, _FOUND = 100, 40, 50
_NOTE = "Without ripgrep: in one process, without a call around it."
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
            Entrant(name="crabpot grep, without ripgrep", block=one_by_one(_alone(tree))),
            _ripgrep("rg --files, and one spawn", tree, "--files", "--glob", _GLOB),
            calling(gateway, "crabpot glob", "glob", {"pattern": _GLOB}),
        ]
        series = await contest(entrants, max(4, rounds // 2) if size == min(sizes) else 3)
        made.append(
            Comparison(id=f"search-{size}", what=f"Searching {size:,} files", limit="", note=_NOTE, series=series)
        )
    return made


def _alone(tree: str) -> Callable[[], Awaitable[float]]:
    """Search in this process: every sandbox of this machine has its ripgrep."""
    context = Context(tree, [tree])

    async def once() -> float:
        began = time.perf_counter()
        found = search_tools.grep({"pattern": _PATTERN, "limit": _FOUND}, context, ripgrep=False)
        took = time.perf_counter() - began
        if len(found["data"]["matches"]) != _FOUND:
            raise CrabpotError("a measured search did not find everything")
        return took

    return once


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
