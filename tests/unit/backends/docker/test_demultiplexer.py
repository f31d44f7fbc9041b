"""What an attached container sends, taken apart however it was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.backends.docker.demultiplexer import Demultiplexer
from crabpot.runner.core.frames import FrameError


def frame(kind: int, data: bytes) -> bytes:
    return bytes((kind, 0, 0, 0)) + len(data).to_bytes(4, "big") + data


@given(
    frames=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=12),
    cuts=st.lists(st.integers(min_value=1, max_value=30), min_size=1),
)
def test_both_streams_come_apart_wherever_they_are_cut(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(frame(*one) for one in frames)
    taken, made, place, turn = b"", Demultiplexer(), 0, 0
    while place < len(stream):
        taken += made(stream[place : place + cuts[turn % len(cuts)]])
        place += cuts[turn % len(cuts)]
        turn += 1
    assert taken == b"".join(data for kind, data in frames if kind == 1)
    assert made.errors() == b"".join(data for kind, data in frames if kind == 2).decode("utf-8", "replace").strip()


def test_of_the_errors_only_the_end_is_kept() -> None:
    made = Demultiplexer()
    for _ in range(100):
        assert made(frame(2, b"x" * 1000)) == b""
    made(frame(2, b"the end"))
    assert made.errors().endswith("the end")
    assert len(made.errors()) <= 8192


@pytest.mark.parametrize(
    "stream", [frame(0, b"x"), frame(3, b"x"), b'{"id":"1"}', b"\1\0\1\0\0\0\0\1x", b"\1\0\0\0\xff\xff\xff\xff"]
)
def test_what_is_not_the_engines_framing_is_refused(stream: bytes) -> None:
    with pytest.raises(FrameError):
        Demultiplexer()(stream)
