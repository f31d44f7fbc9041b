"""Requests and answers keep their shape wherever they go, and an answer that makes no sense cannot be made."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from crabpot.approvals.requests import MOST_MINUTES, Answer, FolderIdentity, Request, denied, left_s


def test_a_request_survives_being_written_and_read(a_request):
    odd = a_request(argv=("git", "a\udcff", "ö", "\ud800"), sender=None, executes=("hook",), dangers=("x",))
    for request in (odd, a_request(kind="connection", argv=(), binary=None, folder=None, host="h", port=443)):
        assert Request.from_json(json.loads(json.dumps(request.as_json()))) == request


def test_what_is_shown_is_one_line_and_its_bytes_stand_beside_it_only_where_they_differ(a_request):
    assert a_request().shown == "git push origin main"
    assert a_request().shown_bytes is None
    odd = a_request(argv=("git", "push", "größer"))
    assert odd.shown == "git push 'größer'"
    assert odd.shown_bytes == "git push $'gr\\xc3\\xb6\\xc3\\x9fer'"
    assert a_request(kind="connection", argv=(), host="h", port=1).shown == "h:1"


def test_everything_that_a_lease_holds_for_is_in_its_bound_and_nothing_else_is(a_request):
    one = a_request()
    git = one.binary
    same: list[dict[str, Any]] = [
        {"id": "x"},
        {"asked_at": 1.0},
        {"deadline": 2.0},
        {"session": "other"},
        {"pattern": "p"},
        {"source": "s"},
    ]
    for change in same:
        assert replace(one, **change).bound == one.bound, change
    different: list[dict[str, Any]] = [
        {"argv": ("git", "push", "origin", "main", "")},
        {"argv": ("git", "push", "origin main")},
        {"scope_key": "other"},
        {"sender": None},
        {"sender": "bob"},
        {"folder": FolderIdentity(path=one.folder.path, dev=1, ino=8)},
        {"folder": None},
        {"binary": replace(git, ino=9)},
        {"binary": replace(git, size=9)},
        {"binary": replace(git, mtime_ns=9)},
        {"binary": replace(git, sha256="6" * 64)},
        {"executes": ("a hook",)},
        {"dangers": ("a danger",)},
        {"kind": "connection"},
        {"host": "h"},
        {"port": 1},
    ]
    assert len({replace(one, **change).bound for change in different} | {one.bound}) == len(different) + 1


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed": True, "grant": "minutes"},
        {"allowed": True, "grant": "minutes", "minutes": 0},
        {"allowed": True, "grant": "minutes", "minutes": MOST_MINUTES + 1},
        {"allowed": True, "grant": "session", "minutes": 5},
        {"allowed": False, "grant": "session"},
        {"allowed": True, "keep": True},
    ],
)
def test_an_answer_that_makes_no_sense_cannot_be_made(fields):
    with pytest.raises(ValueError, match=r"minutes|grants|kept"):
        Answer(by="me", **fields)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"allowed": 1, "by": "x"},
        {"allowed": "true", "by": "x"},
        {"allowed": True},
        {"allowed": True, "by": "x", "grant": "for ever"},
        {"allowed": True, "by": "x", "grant": "minutes", "minutes": True},
        {"allowed": True, "by": "x", "grant": "minutes", "minutes": "5"},
        {"allowed": True, "by": "x", "reason": 5},
        {"allowed": True, "by": "x", "keep": 1},
    ],
)
def test_what_is_no_answer_is_not_read_as_one(given):
    with pytest.raises(ValueError, match=r"answer|minutes"):
        Answer.from_json(given)


def test_answers_survive_being_sent():
    for answer in (Answer(allowed=True, grant="minutes", minutes=5, by="me", keep=True), denied("me", "why")):
        assert Answer.from_json(json.loads(json.dumps(answer.as_json()))) == answer


def test_the_time_left_is_never_negative(a_request):
    assert left_s(a_request(deadline=10.0), 9.5) == 1
    assert left_s(a_request(deadline=10.0), 11.0) == 0
