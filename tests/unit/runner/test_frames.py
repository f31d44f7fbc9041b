"""Claims about the frames of the wire."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.runner.core import frames
from crabpot.runner.core.frames import MAX_LINE, MAX_PAYLOAD, FrameError, FrameReader, encode
from crabpot.runner.core.wire import InputFrames

HEADERS = st.dictionaries(
    st.text().filter(lambda key: key != "bytes"),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(), lambda inner: st.lists(inner, max_size=3)
    ),
    max_size=4,
)


@given(st.lists(st.tuples(HEADERS, st.binary(max_size=64)), max_size=4), st.lists(st.integers(1, 40)))
def test_what_is_encoded_is_read_back_however_it_is_cut(messages, sizes):
    stream = b"".join(encode(header, payload) for header, payload in messages)
    reader, read = FrameReader(), []
    for size in sizes:
        read += reader.feed(stream[:size])
        stream = stream[size:]
    read += reader.feed(stream)
    expected = [({**header, "bytes": len(payload)} if payload else header, payload) for header, payload in messages]
    assert read == expected


PASSED = st.builds(
    lambda data, eof: ({"op": "input", "id": "1", **eof}, data),
    st.binary(max_size=64),
    st.sampled_from([{}, {"eof": True}]),
)


@given(st.lists(PASSED | st.tuples(HEADERS, st.binary(max_size=64)), max_size=6), st.lists(st.integers(1, 200)))
def test_input_is_passed_on_as_it_comes_and_is_all_there_however_it_is_cut(messages, sizes):
    stream = b"".join(encode(header, payload) for header, payload in messages)
    reader, read = InputFrames(), []
    for size in (*sizes, len(stream)):
        # Overwritten by the next read, as the runner's own buffer is.
        scratch = bytearray(stream[:size])
        read += [(header, bytes(payload)) for header, payload in reader.feed(memoryview(scratch))]
        stream = stream[size:]
    joined: list[tuple[object, bytes]] = []
    for header, payload in read:
        if joined and joined[-1][0] is header:
            joined[-1] = (header, joined[-1][1] + payload)
        else:
            joined.append((header, payload))
    whole = [({**header, "bytes": len(payload)} if payload else header, payload) for header, payload in messages]
    # What is empty and has no end has nothing to pass on.
    nothing = ({"op": "input", "id": "1"}, b"")
    assert [one for one in joined if one != nothing] == [one for one in whole if one != nothing]
    assert not reader.partial


def test_input_that_is_no_frame_breaks_the_stream_for_good():
    reader = InputFrames()
    for broken in (b'{"op":"input"!}\n', b"{}\n"):
        with pytest.raises(FrameError):
            reader.feed(memoryview(broken))


@given(HEADERS)
def test_the_c_codec_and_the_portable_one_say_the_same(header):
    for (scan, _), (_, dump) in (
        (frames._c_codec(), frames._portable_codec()),
        (frames._portable_codec(), frames._c_codec()),
    ):
        text = dump(header)
        assert scan(text, 0) == (header, len(text))
        assert json.loads(text) == header


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  ",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"text"',
        b"{} {}",
        b"{}x",
        b'{"a":}',
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1e999}',
        b'{"a":' + b"9" * 100_000 + b"}",
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\x01"}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"bytes":-1}',
        b'{"bytes":true}',
        b'{"bytes":"1"}',
        b'{"bytes":1.0}',
        b'{"bytes":null}',
        b'{"bytes":[]}',
        b'{"bytes":%d}' % (MAX_PAYLOAD + 1),
        b'{"bytes":99999999999999999999999}',
    ],
)
def test_what_is_no_frame_breaks_the_stream_for_good(line):
    reader = FrameReader()
    with pytest.raises(FrameError):
        reader.feed(line + b"\n")
    with pytest.raises(FrameError):
        reader.feed(b"{}\n")


def test_a_line_may_be_as_long_as_the_limit_and_no_longer():
    longest = b'{"a":"' + b"x" * (MAX_LINE - 9) + b'"}\n'
    assert len(longest) == MAX_LINE
    assert len(FrameReader().feed(longest)) == 1
    with pytest.raises(FrameError):
        FrameReader().feed(longest.replace(b"x", b"xx", 1))


def test_a_line_that_never_ends_is_not_waited_for():
    reader = FrameReader()
    for _ in range(MAX_LINE // 4096):
        assert reader.feed(b"x" * 4096) == []
    with pytest.raises(FrameError):
        reader.feed(b"x" * 4096)


def test_a_frame_that_would_be_too_large_is_not_made():
    for header, payload in (({"a": "x" * MAX_LINE}, b""), ({}, b"x" * (MAX_PAYLOAD + 1)), ({"a": float("nan")}, b"")):
        with pytest.raises(FrameError):
            encode(header, payload)
    for value in (object(), {1, 2}, b"bytes"):
        with pytest.raises(FrameError):
            encode({"a": value})


def test_a_value_that_contains_itself_is_not_made():
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(FrameError):
        encode({"a": loop})


def test_names_that_are_not_text_survive_the_way():
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert FrameReader().feed(encode({"path": name})) == [({"path": name}, b"")]


def test_reading_takes_time_in_proportion_to_the_stream():
    """A reader that looks again at what it has would need minutes for this."""
    line = b'{"a":"' + b"x" * (MAX_LINE - 100) + b'"}\n'
    stream = line + encode({}, b"y" * MAX_PAYLOAD) + encode({"b": 1}) * 50_000
    reader, count = FrameReader(), 0
    start = time.monotonic()
    for at in range(0, len(stream), 16):
        count += len(reader.feed(stream[at : at + 16]))
    count += len(FrameReader().feed(encode({"b": 1}) * 50_000))
    assert count == 100_002
    assert time.monotonic() - start < 10
