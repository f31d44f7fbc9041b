"""A shim by itself: what it says of itself, and how it ends, whatever is at the other end of its socket."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.runner.upcalls import shim

if TYPE_CHECKING:
    from collections.abc import Callable


def run(folder: Path, answer: Callable[[socket.socket], None] | None, stdin: bytes = b"") -> tuple[int, str, str]:
    """Start one against a socket of the test's own."""
    path = folder / "socket"
    text = Path(shim.__file__).read_text().replace(shim.SOCKET, str(path))
    (folder / "shim.py").write_text(text)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    thread = threading.Thread(target=lambda: answer(server.accept()[0]) if answer else None)
    if answer is not None:
        server.listen()
    thread.start()
    program = [sys.executable, "-I", "-S", str(folder / "shim.py"), "tool", "a b"]
    done = subprocess.run(program, input=stdin, capture_output=True, timeout=20, check=False, cwd=folder)
    thread.join()
    server.close()
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def ended(**reply: object) -> bytes:
    return shim.message(shim.END, json.dumps(reply).encode())


def test_it_asks_with_its_words_and_folder_and_passes_output_and_exit_code_on(tmp_path: Path) -> None:
    heard = bytearray()

    def answer(one: socket.socket) -> None:
        while shim.INPUT_END not in heard[-5:-4]:
            heard.extend(one.recv(4096))
        one.sendall(shim.message(shim.OUTPUT, b"out") + shim.message(shim.ERRORS, b"err") + ended(exit_code=7))
        one.close()

    assert run(tmp_path, answer, b"input") == (7, "out", "err")
    (kind, asked), (_, given), (last, _) = shim.Messages().feed(bytes(heard))
    assert (kind, given, last) == (shim.ASK, b"input", shim.INPUT_END)
    assert asked == b"%s\0tool\0a b" % bytes(tmp_path)


@pytest.mark.parametrize(("code", "status"), [("denied", 126), ("approval_timeout", 126), ("timeout", 124), ("x", 125)])
def test_a_refusal_that_comes_at_once_is_told_whether_or_not_its_input_was_taken(
    tmp_path: Path, code: str, status: int
) -> None:
    def answer(one: socket.socket) -> None:
        one.sendall(ended(error={"code": code, "message": "no\udcff"}))
        one.close()

    got, _, told = run(tmp_path, answer, b"x" * 100_000)
    assert (got, told) == (status, "crabpot: tool: no\\udcff\n")


@pytest.mark.parametrize("answer", [None, lambda one: one.close()], ids=["nobody listens", "it hangs up"])
def test_without_a_runner_it_says_so(tmp_path: Path, answer: Callable[[socket.socket], None] | None) -> None:
    status, _, told = run(tmp_path, answer)
    assert status == 125
    assert told.startswith("crabpot: tool: ")


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=1), st.binary(max_size=50))), st.integers(1, 7))
def test_messages_come_out_as_they_went_in_however_they_are_cut(sent: list[tuple[bytes, bytes]], size: int) -> None:
    whole = b"".join(shim.message(kind, data) for kind, data in sent)
    messages = shim.Messages()
    got = [one for start in range(0, len(whole), size) for one in messages.feed(whole[start : start + size])]
    assert got == sent


def test_one_that_is_too_large_is_refused_before_it_has_come() -> None:
    with pytest.raises(ValueError, match="too large"):
        shim.Messages().feed(b"I" + struct.pack(">I", shim.LARGEST + 1))
