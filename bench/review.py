"""Measure folders under review: opening one of many files, calling in a layer, and forking a session."""

from __future__ import annotations

import json
import os
import time
from itertools import count
from typing import TYPE_CHECKING, Literal

from bench.contest import Entrant, contest, one_by_one
from bench.entrants import SESSION, calling, opening, seconds
from bench.figures import Comparison
from crabpot.model import Place
from crabpot.sandboxes.snapshots import Snapshots
from crabpot.spec.hardening import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.gateway import Gateway

_IN_EACH = 500
_CHANGES = "for i in 0 1 2 3 4 5 6 7 8 9; do echo changed > changed-$i; done"
_numbers = count()


async def review(
    open_gateway: Callable[[str], Gateway], folder: str, *, files: int, forked: int, rounds: int
) -> list[Comparison]:
    """Measure all three. `folder` is where the projects are made, of `files` and of `forked` files."""
    empty, many, some = (_project(f"{folder}/{name}", size) for name, size in zip("ems", (0, files, forked)))  # noqa: B905
    over_none, over_many, over_some = (open_gateway(_settings(path, "review")) for path in (empty, many, some))
    direct = open_gateway(_settings(empty, "rw"))
    openers = [opening(over_none, "empty folder"), opening(over_many, f"{files:,} files")]
    opened = await contest(openers, max(4, rounds // 2))
    calls = [calling(one, name, "exec", {"command": "true"}) for one, name in ((direct, "rw"), (over_none, "layer"))]
    called = await contest(calls, rounds)
    await seconds(over_some.call(SESSION, "exec", command=_CHANGES))
    forks = [opening(over_some, "open"), Entrant(name="fork", block=one_by_one(lambda: _fork(over_some)))]
    made = await contest(forks, max(4, rounds // 2))
    return [
        Comparison(id="review", what="Opening a folder under review", limit="empty folder", series=opened),
        Comparison(id="layer", what="`exec true` in a layer", limit="rw", series=called),
        Comparison(
            id="fork",
            what=f"Forking a session with {forked:,} files and 10 changes, to the fork's first result",
            limit="open",
            series=made,
        ),
    ]


async def _fork(gateway: Gateway) -> float:
    other = f"agent:main:fork-{next(_numbers)}"
    began = time.perf_counter()
    await Snapshots(gateway.execution, gateway.settings, gateway.audit).fork(SESSION, other)
    await seconds(gateway.call(other, "exec", command="true"))
    took = time.perf_counter() - began
    await gateway.execution.fleet.stop((Place.SANDBOX, other))
    return took


def _settings(folder: str, access: Literal["review", "rw"]) -> str:
    sandbox = {"workspace": access, "backend": "bubblewrap"}
    return json.dumps({"agents": {"defaults": {"workspace": folder, "sandbox": sandbox}}})


def _project(folder: str, files: int) -> str:
    """Make a folder of many small files, of this user's own or, for root, of a user whom a sandbox can run as."""
    os.mkdir(folder)
    for start in range(0, files, _IN_EACH):
        inner = f"{folder}/{start // _IN_EACH}"
        os.mkdir(inner)
        for number in range(min(_IN_EACH, files - start)):
            with open(f"{inner}/{number}", "wb") as file:
                file.write(b"x\n")
    if os.geteuid() == 0:
        for at, folders, names in os.walk(folder):
            for name in (*folders, *names):
                os.chown(f"{at}/{name}", NOBODY, NOBODY)
        os.chown(folder, NOBODY, NOBODY)
    return folder
