"""The client of a gateway that serves: it finds one or none, and never waits for one that is not there."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import asynccontextmanager, suppress

import pytest

from crabpot.doors.local.client import connect
from crabpot.doors.local.identity import SOCKET_NAME
from crabpot.errors import CrabpotError
from crabpot.runner.core.frames import FrameReader, encode

S = "agent:main:main"
RESULT = {"success": True, "stdout": "", "stderr": "", "exit_code": 0, "error": None, "truncated": False, "data": None}


@asynccontextmanager
async def server(state, *frames, ready=None):
    """A server that greets and then answers the first call with the frames given; ID stands for the call's id."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(os.path.join(state, SOCKET_NAME))
    listening.listen()

    def serve_one():
        sock, _ = listening.accept()
        taken = FrameReader()
        waiting = [[ready if ready is not None else {"op": "ready", "protocol": 1, "config": "defaults"}], frames]
        with sock, suppress(OSError):
            while data := sock.recv(1 << 16):
                for header, _ in taken.feed(data):
                    for frame in waiting.pop(0) if waiting else ():
                        named = {key: header["id"] if value == "ID" else value for key, value in frame.items()}
                        sock.sendall(encode(named))

    serving = threading.Thread(target=serve_one, daemon=True)
    serving.start()
    try:
        yield
    finally:
        await asyncio.to_thread(serving.join, 20)
        listening.close()


async def test_there_is_none_where_nobody_listens(tmp_path):
    assert await connect(str(tmp_path)) is None
    assert await connect(str(tmp_path / "missing")) is None
    assert await connect(str(tmp_path / ("long" * 50))) is None
    (tmp_path / SOCKET_NAME).write_text("no socket")
    assert await connect(str(tmp_path)) is None


async def test_a_socket_whose_owner_died_is_none(tmp_path):
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / SOCKET_NAME))
    dead.listen()
    dead.close()
    assert await connect(str(tmp_path)) is None


async def test_one_that_does_not_answer_is_none_and_holds_nobody_up(tmp_path):
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(tmp_path / SOCKET_NAME))
    silent.listen()
    assert await connect(str(tmp_path), timeout_s=0.1) is None
    silent.close()


async def test_one_whose_queue_is_full_is_none_and_holds_nobody_up(tmp_path):
    full = socket.socket(socket.AF_UNIX)
    full.bind(str(tmp_path / SOCKET_NAME))
    full.listen(0)
    knocking = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    for one in knocking:
        one.setblocking(False)
        one.connect_ex(str(tmp_path / SOCKET_NAME))
    assert await connect(str(tmp_path), timeout_s=0.1) is None
    for one in (*knocking, full):
        one.close()


async def test_one_of_another_protocol_is_none(tmp_path):
    async with server(str(tmp_path), ready={"op": "ready", "protocol": 99}):
        assert await connect(str(tmp_path)) is None


async def test_a_result_is_read_whole(tmp_path):
    frame = {"id": "ID", "call": "c-1", **RESULT, "place": "host", "duration_ms": 1.5}
    async with server(str(tmp_path), frame):
        remote = await connect(str(tmp_path))
        result = await remote.call(S, "ls")
        assert (result.id, result.place.value, result.duration_ms) == ("c-1", "host", 1.5)
        assert remote.decides_by(None)
        await remote.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"place": "moon"},
        {"place": 5},
        {"place": []},
        {"place": None},
        {"duration_ms": "long"},
        {"duration_ms": True},
        {"exit_code": 999},
        {"error": {"code": "no-such-code"}},
        {"success": None},
    ],
    ids=str,
)
async def test_a_result_of_another_shape_is_told_not_believed(tmp_path, wrong):
    async with server(str(tmp_path), {"id": "ID", **RESULT, **wrong}):
        remote = await connect(str(tmp_path))
        with pytest.raises(CrabpotError, match="gateway is gone"):
            await remote.call(S, "ls")
        with pytest.raises(CrabpotError, match="gateway is gone"):
            await remote.inquire("live")
        await remote.close()


@pytest.mark.parametrize("code", ["denied", "approval_denied", "sandbox_lost", "timeout"])
async def test_every_code_of_a_gateway_passes(tmp_path, code):
    frame = {"id": "ID", **RESULT, "success": False, "error": {"code": code, "message": "why"}}
    async with server(str(tmp_path), frame):
        remote = await connect(str(tmp_path))
        assert (await remote.call(S, "ls")).error.code == code
        await remote.close()


async def test_arguments_that_do_not_travel_are_a_result(tmp_path):
    async with server(str(tmp_path)):
        remote = await connect(str(tmp_path))
        result = await remote.call(S, "exec", {"command": float("nan")})
        assert result.error.code == "invalid_arguments"
        await remote.close()
