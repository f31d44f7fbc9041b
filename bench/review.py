"""Measure folders under review: opening one of many files, listing changes, calling in a layer, forking a session."""

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
_CHANGED = 10
_CHANGES = "for i in 0 1 2 3 4 5 6 7 8 9; do echo changed > changed-$i; done"
_numbers = count()


async def review(
    open_gateway: Callable[[str], Gateway], folder: str, *, files: int, forked: int, rounds: int
) -> list[Comparison]:
    """Measure all four. `folder` is where the projects are made, of `files` and of `forked` files."""
    empty, many, some = (_project(f"{folder}/{name}", size) for name, size in zip("ems", (0, files, forked)))  # noqa: B905
    over_none, over_many, over_some = (open_gateway(_settings(path, "review")) for path in (empty, many, some))
    direct = open_gateway(_settings(empty, "rw"))
    sizes = {"empty folder": over_none, f"{files:,} files": over_many}
    opened = await contest([opening(one, name) for name, one in sizes.items()], max(4, rounds // 2))
    listed = await contest([await _listing(one, name) for name, one in sizes.items()], rounds)
    calls = [calling(one, name, "exec", {"command": "true"}) for one, name in ((direct, "rw"), (over_none, "layer"))]
    called = await contest(calls, rounds)
    await _change(over_some)
    forks = [opening(over_some, "open"), Entrant(name="fork", block=one_by_one(lambda: _fork(over_some)))]
    made = await contest(forks, max(4, rounds // 2))
    return [
        Comparison(id="review", what="Opening a folder under review", limit="empty folder", series=opened),
        Comparison(id="changes", what="`changes list` of 10 changes", limit="empty folder", series=listed),
        Comparison(id="layer", what="`exec true` in a layer", limit="rw", series=called),
        Comparison(
            id="fork",
            what=f"Forking a session with {forked:,} files and 10 changes, to the fork's first result",
            limit="open",
            series=made,
        ),
    ]


async def _change(gateway: Gateway) -> None:
    await seconds(gateway.call(SESSION, "exec", command=_CHANGES))


async def _listing(gateway: Gateway, name: str) -> Entrant:
    """Return an entrant that lists the changes of a session."""
    await _change(gateway)
    person = gateway.review(by="bench")
    layer = person.layer(SESSION)
    assert layer is not None

    async def once() -> float:
        began = time.perf_counter()
        told = await person.listed(layer)
        took = time.perf_counter() - began
        assert len(told["files"]) == _CHANGED
        return took

    return Entrant(name=name, block=one_by_one(once))


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
