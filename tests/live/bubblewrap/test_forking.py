"""Sandboxes that a fork server makes in bwrap's place: the same walls, a common end, and nothing else in common."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.bubblewrap import gateway

if TYPE_CHECKING:
    from tests.support.people import Person


def test_the_end_of_a_fork_server_ends_its_sandboxes_and_the_next_one_gets_another(person: Person) -> None:
    assert person.run("server_dies") == {"answer": "here\n", "another": True}


def test_two_sandboxes_of_one_fork_server_share_no_namespace_and_no_word(person: Person) -> None:
    found = person.run("two_of_one", str(Path(__file__).parent))
    assert found["same server"]
    assert found["shared"] == []
    assert found["answers"] == ["two\n", "one\n"]
    if person.uid == 0:
        assert found["told"], "the search finds nothing"
    assert not found["not told"]
    assert not found["server"]


def test_a_fork_server_that_may_start_no_process_refuses_one_sandbox_and_keeps_the_others(user: Person) -> None:
    found = user.run("crowded")
    assert "temporarily unavailable" in found["refused"]
    assert found["answer"] == "here\nagain\n"
    assert found["same server"]


def test_more_sandboxes_than_descriptors_may_be_on_their_way_open_at_once(person: Person) -> None:
    assert person.run("burst") == {"ready": 120}


def test_what_needs_more_than_the_kernel_sends_is_made_by_bwrap(person: Person) -> None:
    assert person.run("too_much") == {"forked": False, "shims": "300\n"}


def test_one_backend_opens_sandboxes_in_one_event_loop_after_the_other(person: Person) -> None:
    assert person.run("another_loop") == {"opened": [30, 30], "children": []}


def test_sandboxes_end_with_a_killed_gateway_though_a_fork_of_it_lives(person: Person) -> None:
    dying = person.start("be_killed_after_a_fork")
    output, errors = dying.communicate(timeout=60)
    assert dying.returncode == -9, errors
    told = json.loads(output)
    try:
        gateway.eventually("a process of a killed gateway", told["pids"])
        assert not gateway.is_dead(told["fork"]), "what held its sockets open was gone, too"
    finally:
        os.kill(told["fork"], signal.SIGKILL)


def test_a_fork_server_that_was_stopped_when_its_gateway_died_is_ended_by_the_next(person: Person) -> None:
    dying = person.start("be_killed_beside_a_stopped_server")
    output, errors = dying.communicate(timeout=60)
    assert dying.returncode == -9, errors
    server = json.loads(output)["server"]
    assert not gateway.is_dead(server)
    person.run("clauses")
    gateway.eventually("a stopped fork server", [server])


@pytest.fixture(scope="session")
def wrong(person: Person) -> dict[str, Any]:
    return person.run("told_wrongly")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no namespaces", "user namespace, net namespace, ipc namespace, uts namespace"),
        ("the host's network", "net namespace"),
        ("capabilities", "CapPrm"),
        ("no filter", "Seccomp"),
        ("an unknown word", "--share-everything"),
        ("an unknown order", "share-everything"),
        ("a descriptor that was not sent", "Bad file descriptor"),
        ("no order to load", "not in list"),
    ],
)
def test_what_a_child_is_told_wrongly_is_noticed_from_outside_or_ends_it(
    wrong: dict[str, Any], name: str, reason: str
) -> None:
    assert reason in wrong["refused"][name]


def test_of_those_that_were_refused_nothing_is_left_and_the_others_go_on(wrong: dict[str, Any]) -> None:
    assert wrong["left"] == 0
    assert wrong["answer"] == "here\n"
