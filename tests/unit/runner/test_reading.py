"""read and stream_read: lines, bytes, limits, and constant memory."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.files import file_tools, reading
from tests.unit.runner.file_checks import content, fails, peak_kib


def test_read_gives_lines_from_one_and_counts_all_of_them(ctx, ws) -> None:
    (ws / "f").write_bytes(b"one\ntwo\r\nthree")
    whole = file_tools.read({"path": "f"}, ctx)
    assert whole["payload"] == b"one\ntwo\r\nthree"
    assert whole["data"] == {"encoding": "utf-8", "size": 14, "lines": 3, "truncated": False}
    assert content({"path": "f", "offset": 2}, ctx) == b"two\r\nthree"
    assert content({"path": "f", "offset": 2, "limit": 1}, ctx) == b"two\r\n"
    assert content({"path": "f", "limit": 0}, ctx) == b""
    assert file_tools.read({"path": "f", "offset": 9}, ctx) == {"payload": b"", "data": whole["data"]}
    (ws / "empty").write_bytes(b"")
    assert file_tools.read({"path": "empty"}, ctx)["data"] == {
        "encoding": "utf-8",
        "size": 0,
        "lines": 0,
        "truncated": False,
    }


def test_read_gives_bytes_from_zero_under_base64(ctx, ws) -> None:
    (ws / "f").write_bytes(bytes(range(256)))
    answer = file_tools.read({"path": "f", "encoding": "base64", "offset": 250, "limit": 3}, ctx)
    assert answer == {
        "payload": b"\xfa\xfb\xfc",
        "data": {"encoding": "base64", "size": 256, "lines": None, "truncated": False},
    }
    assert content({"path": "f", "encoding": "base64", "offset": 0}, ctx) == bytes(range(256))
    assert content({"path": "f", "encoding": "base64", "offset": 999}, ctx) == b""


def test_what_is_not_utf8_is_refused_with_the_way_to_read_it(ctx, ws) -> None:
    for data in (b"\xff\xfe", b"ok\n\x80\n", b"cut \xe2\x82"):
        (ws / "f").write_bytes(data)
        got, message = fails(file_tools.read, {"path": "f"}, ctx)
        assert (got, "encoding base64" in message) == ("invalid_arguments", True)
    (ws / "f").write_bytes(b"text\n\xff\n")
    assert content({"path": "f", "limit": 1}, ctx) == b"text\n"


def test_a_long_text_is_cut_at_a_line_and_says_so(ctx, ws) -> None:
    line = "0123456789äöü\n".encode()
    (ws / "f").write_bytes(line * 100_000)
    answer = file_tools.read({"path": "f"}, ctx)
    assert answer["data"] == {"encoding": "utf-8", "size": len(line) * 100_000, "lines": 100_000, "truncated": True}
    assert answer["payload"] == line * (reading.CONTENT_LIMIT // len(line))
    (ws / "g").write_bytes("ä".encode() * reading.CONTENT_LIMIT)
    answer = file_tools.read({"path": "g"}, ctx)
    assert answer["payload"] == "ä".encode() * (reading.CONTENT_LIMIT // 2)
    (ws / "h").write_bytes(b"x" + "ä".encode() * reading.CONTENT_LIMIT)
    assert file_tools.read({"path": "h"}, ctx)["payload"].decode() == "x" + "ä" * (reading.CONTENT_LIMIT // 2 - 1)
    (ws / "exact").write_bytes(b"y" * reading.CONTENT_LIMIT)
    assert file_tools.read({"path": "exact"}, ctx)["data"]["truncated"] is False
    answer = file_tools.read({"path": "f", "encoding": "base64"}, ctx)
    assert (len(answer["payload"]), answer["data"]["truncated"]) == (reading.CONTENT_LIMIT, True)


def run_stream(args, ctx) -> tuple[bytes, dict[str, Any]]:
    steps = file_tools.stream_read(args, ctx)
    pieces = []
    try:
        while True:
            pieces.append(next(steps))
    except StopIteration as end:
        return b"".join(pieces), end.value


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.text(alphabet="aé\r", max_size=5), max_size=12),
    ended=st.booleans(),
    offset=st.integers(1, 14),
    limit=st.none() | st.integers(0, 14),
)
def test_read_and_stream_read_agree_with_a_plain_model(tmp_path_factory, lines, ended, offset, limit) -> None:
    folder = tmp_path_factory.getbasetemp()
    data = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
    (folder / "model").write_bytes(data)
    context = file_tools.Context(str(folder), ())
    args = {"path": "model", "offset": offset, "limit": limit}
    split = data.split(b"\n")
    parts = [part + b"\n" for part in split[:-1]] + ([split[-1]] if split[-1] else [])
    wanted = b"".join(parts[offset - 1 : None if limit is None else offset - 1 + limit])
    answer = file_tools.read(args, context)
    assert answer["payload"] == wanted
    assert answer["data"]["lines"] == len(parts)
    assert run_stream(args, context) == (wanted, answer["data"])
    context.close()


def test_a_stream_gives_everything_in_large_pieces(ctx, ws) -> None:
    data = os.urandom(3 << 20)
    (ws / "f").write_bytes(data)
    pieces = list(file_tools.stream_read({"path": "f", "encoding": "base64"}, ctx))
    assert b"".join(pieces) == data
    assert all(len(piece) >= 256 << 10 for piece in pieces[:-1])
    text = "zeile ä\n".encode() * 400_000
    (ws / "t").write_bytes(text)
    got, found = run_stream({"path": "t"}, ctx)
    assert got == text
    assert found == {"encoding": "utf-8", "size": len(text), "lines": 400_000, "truncated": False}
    assert run_stream({"path": "t", "offset": 300_000, "limit": 2}, ctx)[0] == "zeile ä\n".encode() * 2


def test_a_stream_that_is_given_up_lets_go_of_its_file(ctx, ws) -> None:
    (ws / "f").write_bytes(b"x" * (2 << 20))
    before = len(os.listdir("/proc/self/fd"))
    steps = file_tools.stream_read({"path": "f"}, ctx)
    next(steps)
    steps.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.slow
def test_a_sparse_file_of_a_gigabyte_is_read_in_constant_memory(ctx, ws) -> None:
    with open(ws / "big", "wb") as file:
        file.write(b"first\n")
        file.truncate(1 << 30)

    def run() -> None:
        answer = file_tools.read({"path": "big", "limit": 1}, ctx)
        assert answer["payload"] == b"first\n"
        assert answer["data"] == {"encoding": "utf-8", "size": 1 << 30, "lines": None, "truncated": False}
        assert file_tools.read({"path": "big", "encoding": "base64", "offset": (1 << 30) - 5}, ctx)["payload"] == bytes(
            5
        )
        total = sum(map(len, file_tools.stream_read({"path": "big", "encoding": "base64"}, ctx)))
        assert total == 1 << 30

    assert peak_kib(run) < 24 << 10
