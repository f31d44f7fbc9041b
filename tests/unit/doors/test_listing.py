"""The list of sandboxes that a page asks for: always as it is now, and put into words only where it changed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from crabpot.doors import sandboxes
from crabpot.doors.listing import Listing
from crabpot.model import Place


def kept(number: int, **more: Any) -> dict[str, Any]:
    row = {"name": f"box-{9 - number}", "scope_key": f"agent:main:{number}", "agent": "main", "state": "kept"}
    return row | {"created": 1.0, "used": 2.0} | more


def live(number: int, place: Place = Place.SANDBOX, **more: Any) -> Any:
    limits = SimpleNamespace(memory=1, pids=2, cpus=3.0)
    agent = SimpleNamespace(sandbox=SimpleNamespace(limits=limits))
    facts = {
        "key": (place, f"agent:main:{number}"),
        "scope": SimpleNamespace(agent=agent),
        "clauses": (SimpleNamespace(name="limits.memory", state="degraded"),),
        "started": 3.0,
        "used": 4.0,
        "wire": SimpleNamespace(busy=0),
        "sandbox": SimpleNamespace(pid=77),
    }
    return SimpleNamespace(**facts | more)


def check(listing: Listing, folders: dict[str, dict[str, Any]], running: list[Any]) -> None:
    """Compare a list with the rows, joined anew."""
    expected = sandboxes.rows(folders, [sandboxes.shown(one) for one in running])
    assert json.loads(listing.of(folders, running)) == {"sandboxes": expected}


def test_it_says_what_the_rows_say_whatever_comes_goes_or_changes():
    listing, folders = Listing(), {f"agent:main:{number}": kept(number) for number in range(3)}
    check(listing, {}, [])
    check(listing, folders, [])
    running = [live(1), live(7), live(2, Place.HOST)]
    check(listing, folders, running)
    for name, value in (("used", 5.0), ("started", 6.0), ("clauses", ()), ("scope", None)):
        setattr(running[0], name, value)
        check(listing, folders, running)
    running[1].wire.busy = 2
    check(listing, folders, running)
    folders["agent:main:0"] = kept(0, used=9.0)
    check(listing, folders, running)
    del folders["agent:main:1"]
    check(listing, folders, running)
    check(listing, {}, [])


def test_of_thousands_that_are_kept_the_last_used_are_listed_and_every_live_one():
    listing, most = Listing(), sandboxes.MOST_KEPT
    folders = {f"agent:main:{number}": kept(number, used=float(number)) for number in range(3000)}
    found = json.loads(listing.of(folders, [live(1), live(7000)]))
    assert found["left_off"] == 3000 - most - 1
    shown = {row["scope_key"]: row for row in found["sandboxes"]}
    assert len(shown) == most + 2
    assert shown.keys() >= {"agent:main:1", "agent:main:7000", "agent:main:2999", f"agent:main:{3000 - most}"}
    assert shown["agent:main:1"]["created"] == 1.0
    running = [sandboxes.shown(one) for one in (live(1), live(7000))]
    assert sandboxes.rows(folders, running, most=most) == found["sandboxes"]


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("opened_again", [False, True])
def test_what_stays_the_same_of_a_row_is_not_spelled_again(calls, opened_again):
    listing, running = Listing(), [live(1), live(2)]
    # Read from the disk again, with the same in it.
    for _ in range(2):
        before = {key: row.stays or row.text for key, row in listing._spelled.items()}
        listing.of({"agent:main:0": kept(0), "agent:main:1": kept(1)}, running)
        running[1].used += calls
        running[1].wire.busy += calls
        running[1].started += opened_again
    after = listing._spelled
    same = {key for key, text in before.items() if (after[key].stays or after[key].text) is text}
    assert same == {"agent:main:0", "agent:main:1", *([] if opened_again else ["agent:main:2"])}
