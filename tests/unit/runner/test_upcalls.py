"""Claims about upcalls that the runner begins."""

from __future__ import annotations

import pytest

from crabpot.runner.core.frames import ACK_EVERY, MAX_UPCALLS, UPCALL_WINDOW, WINDOW, FrameError
from crabpot.runner.upcalls.outgoing import Listener, Upcalls


class SentFrames:
    """A wire that only remembers."""

    def __init__(self):
        self.frames = []
        self.congested = False

    def send(self, header, payload=b""):
        self.frames.append((header, bytes(payload)))

    def sent(self):
        return b"".join(payload for _, payload in self.frames)


class Remembering(Listener):
    """A listener that notes everything."""

    def __init__(self):
        self.seen = []

    def on_data(self, data, stream):
        self.seen.append((stream, data))

    def on_eof(self, stream):
        self.seen.append((stream, None))

    def on_room(self):
        self.seen.append("room")

    def on_end(self, reply):
        self.seen.append(reply)


@pytest.fixture
def wire():
    return SentFrames()


@pytest.fixture
def upcalls(wire):
    return Upcalls(wire)


def test_everything_reaches_whoever_began_it(wire, upcalls):
    first, second = Remembering(), Remembering()
    upcalls.open("connect", first)
    upcalls.open("run", second, b"/\0git")
    assert wire.frames == [
        ({"op": "upcall", "up": "1", "kind": "connect"}, b""),
        ({"op": "upcall", "up": "2", "kind": "run"}, b"/\0git"),
    ]
    upcalls.data({"op": "data", "up": "2", "stream": "stderr"}, b"oh")
    upcalls.data({"op": "data", "up": "1", "stream": "stdout", "eof": True}, b"")
    reply = {"op": "reply", "up": "2", "exit_code": 3}
    upcalls.reply(reply, b"")
    assert first.seen == [("stdout", None)]
    assert second.seen == [("stderr", b"oh"), reply]


def test_more_than_the_window_is_kept_and_sent_in_order_as_it_is_taken(wire, upcalls):
    listener = Remembering()
    upcall = upcalls.open("connect", listener)
    data = bytes(range(256)) * 2048
    upcall.send(data)
    upcall.finish()
    assert len(wire.sent()) == UPCALL_WINDOW
    assert not upcall.has_room
    assert not any("eof" in header for header, _ in wire.frames)
    upcalls.ack({"op": "ack", "up": "1", "n": UPCALL_WINDOW}, UPCALL_WINDOW)
    assert wire.sent() == data
    assert wire.frames[-1][0] == {"op": "data", "up": "1", "eof": True}
    upcalls.ack({"op": "ack", "up": "1", "n": UPCALL_WINDOW}, UPCALL_WINDOW)
    assert listener.seen == ["room"]
    assert upcall.has_room


def test_nothing_more_is_taken_while_the_wire_is_congested(wire, upcalls):
    listener = Remembering()
    upcall = upcalls.open("connect", listener)
    wire.congested = True
    assert not upcall.has_room
    upcalls.resume()
    assert listener.seen == []
    wire.congested = False
    upcalls.resume()
    assert listener.seen == ["room"]


def test_what_was_passed_on_is_acknowledged_and_more_than_the_window_breaks_the_wire(wire, upcalls):
    upcall = upcalls.open("connect", Remembering())
    header = {"op": "data", "up": "1", "stream": "stdout"}
    upcalls.data(header, b"x" * WINDOW)
    with pytest.raises(FrameError):
        upcalls.data(header, b"x")
    upcall.consumed(ACK_EVERY - 1)
    assert len(wire.frames) == 1
    upcall.consumed(1)
    assert wire.frames[-1][0] == {"op": "ack", "up": "1", "n": ACK_EVERY}


def test_one_that_was_dropped_is_silent_until_its_reply(wire, upcalls):
    listener = Remembering()
    upcall = upcalls.open("connect", listener)
    upcall.send(b"x" * (UPCALL_WINDOW + 1))
    upcall.drop()
    upcall.drop()
    upcall.consumed(WINDOW)
    upcalls.data({"op": "data", "up": "1", "stream": "stdout"}, b"late")
    upcalls.ack({"op": "ack", "up": "1", "n": 5}, 5)
    upcalls.resume()
    upcalls.reply({"op": "reply", "up": "1"}, b"")
    assert listener.seen == []
    assert [header["op"] for header, _ in wire.frames] == ["upcall", "data", "drop"]


def test_it_is_full_until_replies_come_whatever_was_dropped(upcalls):
    begun = [upcalls.open("connect", Listener()) for _ in range(MAX_UPCALLS)]
    assert upcalls.full
    begun[0].drop()
    assert upcalls.full
    upcalls.reply({"op": "reply", "up": "1"}, b"")
    assert not upcalls.full


def test_signals_are_handed_on(wire, upcalls):
    upcalls.open("run", Listener()).signal("INT")
    assert wire.frames[-1][0] == {"op": "signal", "up": "1", "signal": "INT"}


def test_frames_for_no_conversation_break_the_wire(upcalls):
    upcalls.open("connect", Listener())
    upcalls.reply({"up": "1"}, b"")
    for header in ({"up": "1"}, {"up": "7"}, {"up": None}, {}):
        for operation in (upcalls.reply, upcalls.data):
            with pytest.raises(FrameError):
                operation(header, b"")
        with pytest.raises(FrameError):
            upcalls.ack(header, 1)
