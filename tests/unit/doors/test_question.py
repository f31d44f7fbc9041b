"""What a person reads before agreeing, and which lines are an answer."""

from __future__ import annotations

from typing import Any

import pytest

from crabpot.approvals.identity import Identity
from crabpot.approvals.requests import Answer, FolderIdentity, Request
from crabpot.decide.commands import is_deceptive
from crabpot.doors.cli.terminal import question


def a_request(**changes):
    fields: dict[str, Any] = {
        "id": "1a2b3c4d",
        "session": "agent:main:x",
        "agent": "main",
        "scope_key": "s",
        "argv": ("git", "push"),
    }
    fields |= {"pattern": "git *", "source": "tools.elevated.patterns[0]", "asked_at": 0.0, "deadline": 1.0}
    return Request(**{**fields, **changes})


HOSTILE = "a\x1b[2J\u202eb\u0430\nc"


def test_no_part_of_a_request_reaches_the_terminal_as_it_is():
    request = a_request(
        session=HOSTILE,
        sender=HOSTILE,
        argv=("git", HOSTILE),
        binary=Identity(path=HOSTILE, dev=1, ino=1, size=1, mtime_ns=1, ctime_ns=1, sha256="0" * 64),
        folder=FolderIdentity(path=HOSTILE, dev=1, ino=1),
        pattern=HOSTILE,
        source=HOSTILE,
        executes=(HOSTILE,),
        dangers=(HOSTILE,),
    )
    shown = list(question.lines(request))
    assert not any(is_deceptive(char) for text in shown for char in text)
    assert sum("\\u202e" in text for text in shown) == 8
    assert not any("\u0430" in text for text in shown)


def test_everything_that_is_known_is_told():
    request = a_request(
        sender="alice",
        binary=Identity(path="/usr/bin/git", dev=1, ino=1, size=1, mtime_ns=1, ctime_ns=1, sha256="ab" * 32),
        folder=FolderIdentity(path="/home/me", dev=1, ino=1),
        executes=("a hook",),
        dangers=("it hands over the machine",),
    )
    text = "\n".join(question.lines(request))
    for part in ("1a2b3c4d", "git push", "/usr/bin/git", "abababababababab", "/home/me", "agent:main:x", "alice"):
        assert part in text, part
    for part in ("git *", "tools.elevated.patterns[0]", "executes  a hook", "DANGER    it hands over the machine"):
        assert part in text, part


def test_a_long_command_keeps_both_its_ends_in_sight_and_says_what_is_left_out():
    text = "\n".join(question.lines(a_request(argv=("git", "x" * 10_000, "--upload-pack=evil"))))
    assert "git xxx" in text
    assert "--upload-pack=evil" in text
    assert "characters: crabpot approvals show 1a2b3c4d" in text
    assert len(text) < 4000
    many = "\n".join(question.lines(a_request(executes=tuple(map(str, range(100))))))
    assert "and 88 more" in many


ANSWERS = {
    "o": ("once", None, False),
    " o ": ("once", None, False),
    "s": ("session", None, False),
    "s keep": ("session", None, True),
    "m 10": ("minutes", 10, False),
    "m 10080 keep": ("minutes", 10080, True),
}


@pytest.mark.parametrize(("text", "meaning"), ANSWERS.items())
def test_an_answer_is_read_to_the_letter(text, meaning):
    answer = question.understood(a_request(), text, "me")
    assert (answer.allowed, answer.grant, answer.minutes, answer.keep) == (True, *meaning)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "O", "y", "yes", "once", "oo", "o o", "o keep", "s s", "c", "allow", "keep"),
        *("m", "m keep", "m 0", "m -1", "m 1.5", "m 10081", "m ١", "m 10 keep keep", "m 999999999999999999999"),
    ],
)
def test_whatever_else_is_typed_is_no_answer(text):
    assert question.understood(a_request(), text, "me") is None


def test_a_denial_takes_the_rest_of_the_line_as_its_reason():
    assert question.understood(a_request(), "d", "me") == Answer(allowed=False, by="me")
    assert question.understood(a_request(), "d  not on a Friday ", "me").reason == "not on a Friday"


def test_only_a_connection_can_be_written_into_the_configuration():
    place = a_request(kind="connection", argv=(), host="example.com", port=443)
    assert question.understood(place, "c", "me").grant == "config"
    assert "c write it" in question.choices(place)
    assert "c write it" not in question.choices(a_request())
    assert "example.com:443" in "\n".join(question.lines(place))
