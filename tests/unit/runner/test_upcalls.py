"""Claims about questions to the gateway."""

from __future__ import annotations

import pytest

from crabpot.runner.frames import FrameError
from crabpot.runner.upcalls import Upcalls


class SentFrames:
    """A wire that only remembers."""

    def __init__(self):
        self.frames = []

    def send(self, header, payload=b""):
        self.frames.append((header, payload))


def test_every_answer_reaches_whoever_asked():
    wire, answers = SentFrames(), {}
    upcalls = Upcalls(wire)
    for kind in ("host_command", "connect"):
        upcalls.send(
            kind, {"argv": ["git"]}, lambda header, payload, kind=kind: answers.update({kind: (header, payload)}), b"x"
        )
    first, second = (header["up"] for header, _ in wire.frames)
    assert wire.frames[0] == ({"op": "upcall", "up": first, "kind": "host_command", "argv": ["git"]}, b"x")
    upcalls.reply({"op": "reply", "up": second, "n": 2}, b"")
    upcalls.reply({"op": "reply", "up": first, "n": 1}, b"out")
    assert answers["host_command"] == ({"op": "reply", "up": first, "n": 1}, b"out")
    assert answers["connect"][0]["n"] == 2


def test_fields_of_a_question_do_not_take_the_place_of_its_own():
    wire = SentFrames()
    Upcalls(wire).send("connect", {"op": "output", "up": "9", "kind": "x"}, lambda _header, _payload: None)
    assert wire.frames[0][0] == {"op": "upcall", "up": "1", "kind": "connect"}


def test_an_answer_to_no_question_breaks_the_wire():
    upcalls = Upcalls(SentFrames())
    up = upcalls.send("connect", {}, lambda _header, _payload: None)
    upcalls.reply({"up": up}, b"")
    for header in ({"up": up}, {"up": "7"}, {"up": None}, {}):
        with pytest.raises(FrameError):
            upcalls.reply(header, b"")
