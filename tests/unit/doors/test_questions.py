"""Questions that travel to a client of a gateway that serves: asked once, taken back, and never answered by nonsense."""

from __future__ import annotations

import asyncio
import json

import pytest

from crabpot.approvals.requests import Answer, Request, denied, new_id
from crabpot.doors.local.questions import Answerer, Asker
from crabpot.runner.core.frames import MAX_PAYLOAD, FrameError

YES = Answer(allowed=True, by="terminal")


def a_request(**changes):
    fields = {"id": new_id(), "session": "s", "agent": "main", "scope_key": "s", "argv": ("git", "push")}
    return Request(**{**fields, "pattern": "git *", "source": "x", "asked_at": 0.0, "deadline": 1.0, **changes})


class Pair:
    """Both ends, with a wire between them that keeps what passed."""

    def __init__(self):
        self.sent, self.back = [], []
        self.asker = Asker(self._to_client)
        self.answerer = Answerer(self._to_gateway)

    def _to_client(self, header, payload):
        if len(payload) > MAX_PAYLOAD:
            raise FrameError("too large")
        self.sent.append(header["op"])
        self.answerer.take(header, payload)

    def _to_gateway(self, header, _payload):
        self.back.append(header)
        self.asker.take(json.loads(json.dumps(header)))


class Says:
    def __init__(self, answer):
        self.answer = answer

    async def ask(self, _request):
        return self.answer


class Silent:
    def __init__(self):
        self.withdrawn = 0

    async def ask(self, _request):
        try:
            await asyncio.Event().wait()
        finally:
            self.withdrawn += 1


@pytest.mark.parametrize("answer", [YES, denied("terminal", "no"), None])
async def test_an_answer_comes_back_as_it_was_given(answer):
    pair = Pair()
    pair.answerer.approver = Says(answer)
    assert await pair.asker.ask(a_request(argv=("a\udcff", "\ud800", "ö"))) == answer
    assert pair.sent == ["ask"]


async def test_a_question_answered_elsewhere_is_taken_back():
    pair = Pair()
    pair.answerer.approver = silent = Silent()
    asking = asyncio.create_task(pair.asker.ask(a_request()))
    while not pair.sent:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await pair.answerer.close()
    assert (pair.sent, silent.withdrawn, pair.back) == (["ask", "withdraw"], 1, [])


async def test_two_calls_of_one_client_do_not_ask_it_the_same_twice():
    pair = Pair()
    pair.answerer.approver = Silent()
    request = a_request()
    asking = asyncio.create_task(pair.asker.ask(request))
    while not pair.sent:
        await asyncio.sleep(0)
    assert await pair.asker.ask(request) is None
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await pair.answerer.close()


async def test_a_request_larger_than_a_frame_cannot_be_asked_there():
    pair = Pair()
    pair.answerer.approver = Says(YES)
    assert await pair.asker.ask(a_request(argv=("x" * MAX_PAYLOAD,))) is None


async def test_an_answer_to_no_question_is_for_nobody():
    Asker(lambda *_: None).take({"op": "answer", "id": "ffffffff", "answer": YES.as_json()})


@pytest.mark.parametrize("given", ["yes", 1, [], {}, {"allowed": 1, "by": "x"}, {"allowed": True}])
async def test_nonsense_from_a_client_breaks_its_connection_and_answers_nothing(given):
    asker = Asker(lambda *_: None)
    request = a_request()
    asking = asyncio.create_task(asker.ask(request))
    await asyncio.sleep(0)
    with pytest.raises(FrameError):
        asker.take({"op": "answer", "id": request.id, "answer": given})
    assert not asking.done()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"{}", b'{"id": "x"}'])
async def test_nonsense_from_a_gateway_asks_nobody(payload):
    answerer = Answerer(lambda *_: None)
    answerer.approver = Says(YES)
    with pytest.raises(FrameError):
        answerer.take({"op": "ask", "id": "x"}, payload)


async def test_a_client_that_did_not_offer_to_be_asked_is_not():
    with pytest.raises(FrameError):
        Answerer(lambda *_: None).take({"op": "ask", "id": "x"}, json.dumps(a_request().as_json()).encode())
