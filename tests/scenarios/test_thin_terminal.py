"""Who calls from a terminal is asked there, also where another process has the gateway and the client is thin."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import need
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.program import Program

ASKED = "may this command run on the HOST?"
# A question is deaf at first, so that nothing typed before answers it; its prompt comes when it hears.
HEARS = "left] >"


@pytest.fixture
def lingering(crabpot: Program) -> Iterator[Program]:
    need("bubblewrap")
    crabpot.workspace.mkdir()
    elevated = '{ enabled: true, patterns: ["touch *", "cat"], approvalTimeout: 60 }'
    crabpot.configure(
        f'{{agents: {{defaults: {{workspace: "{crabpot.workspace}", sandbox: {{workspace: "rw"}}}}}},'
        f" tools: {{elevated: {elevated}}}}}"
    )
    if os.geteuid() == 0:
        os.chown(crabpot.workspace, 61234, 61234)
    made = replace(crabpot, more={"CRABPOT_LINGER": "10m"})
    assert made("exec", "--", "true").code == 0, "the gateway runs before anybody is asked"
    yield made
    made("serve", "stop")


@pytest.fixture
def at_terminal(lingering: Program) -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        one.close()


def asked(lingering: Program, at_terminal: list[Terminal], command: str, session: str = "agent:main:main") -> Terminal:
    """Run a command at a terminal of its own, and wait for its question."""
    person = Terminal(lingering, "exec", "--session", session, "--", command)
    at_terminal.append(person)
    person.wait_for(ASKED, 60)
    person.wait_for(HEARS, 60)
    return person


def test_the_client_is_the_thin_one_and_the_question_is_whole(lingering, at_terminal):
    person = asked(lingering, at_terminal, "touch allowed")
    with open(f"/proc/{person.pid}/maps", encoding="utf-8") as maps:
        assert "pydantic" not in maps.read(), "the whole program"
    for part in ("command   touch allowed", "/usr/bin/touch", "tools.elevated.patterns[0]"):
        assert part in person.seen
    person.type("o\r")
    assert person.end() == 0, person.seen
    assert (lingering.workspace / "allowed").exists()


@pytest.mark.parametrize("keys", ["d\r", "\x03", "\x04"], ids=["no", "interrupt", "end"])
def test_a_no_is_a_denial_and_nothing_runs(lingering, at_terminal, keys):
    person = asked(lingering, at_terminal, "touch denied")
    person.type(keys)
    assert person.end() == 126, person.seen
    assert "approval_denied" in person.seen
    assert not (lingering.workspace / "denied").exists()


def test_what_was_typed_before_the_question_does_not_answer_it(lingering, at_terminal):
    person = Terminal(lingering, "exec", "--", "touch early")
    at_terminal.append(person)
    for _ in range(5):
        person.type("o\r")
    person.wait_for(HEARS, 60)
    time.sleep(1)
    assert not (lingering.workspace / "early").exists()
    person.type("d\r")
    assert person.end() == 126


def test_each_session_is_asked_at_its_own_terminal(lingering, at_terminal):
    first = asked(lingering, at_terminal, "touch first", "agent:main:one")
    second = asked(lingering, at_terminal, "touch second", "agent:main:two")
    assert "touch second" not in first.seen
    assert "touch first" not in second.seen
    second.type("d\r")
    assert second.end() == 126
    first.type("o\r")
    assert first.end() == 0
    assert [path.name for path in sorted(lingering.workspace.iterdir())] == ["first"]


def test_a_terminal_that_goes_away_withdraws_its_question(lingering, at_terminal):
    person = asked(lingering, at_terminal, "touch gone")
    assert "touch gone" in lingering("approvals", "list").out
    at_terminal.remove(person)
    person.close()
    deadline = time.monotonic() + 30
    while "touch gone" in lingering("approvals", "list").out:
        assert time.monotonic() < deadline
    assert not (lingering.workspace / "gone").exists()


def test_an_answer_from_elsewhere_ends_the_question_and_leaves_the_terminal_as_it_was(lingering, at_terminal):
    person = asked(lingering, at_terminal, "touch elsewhere")
    (request,) = lingering("approvals", "list", "--json").json
    assert lingering("approvals", "allow", request["id"]).code == 0
    person.wait_for("answered elsewhere", 60)
    assert person.end() == 0, person.seen
    assert (lingering.workspace / "elsewhere").exists()


def test_without_a_terminal_the_client_says_where_to_answer(lingering: Program, tmp_path: Path) -> None:
    lingering.configure(lingering.usual_file.read_text().replace("approvalTimeout: 60", "approvalTimeout: 1"))
    done = lingering("exec", "--", "touch unasked", cwd=tmp_path)
    assert done.code == 126
    assert "approvals allow" in done.err
    assert "approval_timeout" in done.err
