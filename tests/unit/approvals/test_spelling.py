"""Lists of pending requests: complete, as one JSON text, and each request is spelled once."""

from __future__ import annotations

import json

from crabpot.approvals.requests import Request
from crabpot.approvals.spelling import Spelling


def test_a_list_says_what_its_requests_say(a_request):
    requests = [a_request(), a_request(argv=("git", "a\udcff", "ö")), a_request(argv=("m\u0430in",))]
    for form in (Request.as_json, Request.as_shown):
        assert json.loads(Spelling(form).of(requests)) == json.loads(
            json.dumps({"requests": [form(one) for one in requests]})
        )
    assert json.loads(Spelling(Request.as_json).of([])) == {"requests": []}


def test_a_request_is_spelled_once_for_as_long_as_it_waits(a_request):
    spelled = []

    def form(request):
        spelled.append(request.id)
        return request.as_json()

    first, second = a_request(), a_request()
    spelling = Spelling(form)
    for pending in ([first], [first, second], [second], [second, first]):
        assert [one["id"] for one in json.loads(spelling.of(pending))["requests"]] == [one.id for one in pending]
    assert spelled == [first.id, second.id, first.id]


def test_another_request_of_the_same_id_is_shown_as_it_is(a_request):
    spelling, request = Spelling(Request.as_json), a_request()
    spelling.of([request])
    other = a_request(id=request.id, argv=("rm", "-rf", "x"))
    assert json.loads(spelling.of([other]))["requests"][0]["argv"] == ["rm", "-rf", "x"]
