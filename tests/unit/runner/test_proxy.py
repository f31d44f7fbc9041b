"""The runner's end of a connection: bytes of a real program, and a gateway that takes, gives, stalls and ends."""

from __future__ import annotations

import socket

import pytest

from crabpot.runner.core.frames import MAX_UPCALLS, UPCALL_WINDOW, WINDOW
from tests.unit.runner.driver import RunnerProcess


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def runner(port):
    with RunnerProcess(proxy=port) as made:
        yield made


def connect(port):
    made = socket.create_connection(("127.0.0.1", port))
    made.settimeout(20)
    return made


def take(runner, op, **fields):
    """Take frames until one of a kind comes; data on the way is kept."""
    while True:
        header, payload = runner.receive()
        if header.get("op") == op and all(header.get(name) == value for name, value in fields.items()):
            return header, payload
        assert header.get("op") in ("data", "ack", "upcall", "drop"), header


def give(runner, up, data):
    runner.send({"op": "data", "up": up, "stream": "stdout"}, data)


def test_bytes_go_both_ways_and_either_side_may_end_first(runner, port):
    with connect(port) as program:
        up = take(runner, "upcall", kind="connect")[0]["up"]
        program.sendall(b"question")
        assert take(runner, "data", up=up)[1] == b"question"
        give(runner, up, b"answer")
        assert program.recv(100) == b"answer"
        program.shutdown(socket.SHUT_WR)
        assert take(runner, "data", up=up, eof=True)
        give(runner, up, b"more")
        runner.send({"op": "data", "up": up, "stream": "stdout", "eof": True})
        assert program.recv(100) == b"more"
        assert program.recv(100) == b""
        runner.send({"op": "reply", "up": up, "success": True})
    assert runner.run("echo fine")["stdout"] == "fine\n"


def test_everything_reaches_the_program_before_its_connection_is_closed(runner, port):
    with connect(port) as program:
        up = take(runner, "upcall")[0]["up"]
        give(runner, up, b"x" * WINDOW)
        runner.send({"op": "reply", "up": up, "success": True})
        got = 0
        while data := program.recv(1 << 16):
            got += len(data)
        assert got == WINDOW


def test_what_the_program_does_not_read_is_not_acknowledged_and_stops_no_call(runner, port):
    with connect(port) as program:
        up = take(runner, "upcall")[0]["up"]
        # More than the kernel holds on the way: the rest stays with the runner, and of that nothing is acknowledged.
        sent = acknowledged = 0
        while sent - acknowledged + (1 << 18) <= WINDOW:
            give(runner, up, b"x" * (1 << 18))
            sent += 1 << 18
            result = runner.begin("exec", {"command": "true"})
            while True:
                header, _ = runner.receive()
                if header.get("op") == "ack":
                    acknowledged += header["n"]
                elif header.get("id") == result:
                    break
        assert sent - acknowledged > WINDOW - (1 << 18)
        program.settimeout(20)
        got = 0
        while got < sent:
            got += len(program.recv(1 << 16))
        assert runner.run("echo fine")["stdout"] == "fine\n"


def test_a_program_is_read_no_further_than_the_gateway_takes(runner, port):
    with connect(port) as program:
        up = take(runner, "upcall")[0]["up"]
        program.setblocking(False)
        sent = 0
        try:
            while True:
                sent += program.send(b"x" * (1 << 16))
        except BlockingIOError:
            pass
        got = 0
        while got < UPCALL_WINDOW:
            got += len(take(runner, "data", up=up)[1])
        assert got == UPCALL_WINDOW
        assert runner.run("echo fine")["stdout"] == "fine\n"
        program.setblocking(True)
        program.shutdown(socket.SHUT_WR)
        ended = False
        while not ended:
            runner.send({"op": "ack", "up": up, "n": min(UPCALL_WINDOW, 1 << 16)})
            header, payload = take(runner, "data", up=up)
            got += len(payload)
            ended = header.get("eof") is True
        assert got == sent


def test_a_program_that_goes_away_drops_its_upcall(runner, port):
    program = connect(port)
    up = take(runner, "upcall")[0]["up"]
    program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    program.close()
    take(runner, "drop", up=up)
    give(runner, up, b"late")
    runner.send({"op": "reply", "up": up, "success": True})
    assert runner.run("echo fine")["stdout"] == "fine\n"


def test_more_connections_than_conversations_wait_for_their_turn(runner, port):
    made = [connect(port) for _ in range(MAX_UPCALLS + 20)]
    first = [take(runner, "upcall")[0]["up"] for _ in range(224)]
    assert runner.run("echo fine")["stdout"] == "fine\n"
    for up in first:
        runner.send({"op": "reply", "up": up, "success": True})
    later = [take(runner, "upcall")[0]["up"] for _ in range(len(made) - 224)]
    assert len(set(first + later)) == len(made)
    for program in made:
        program.close()


def test_without_a_word_for_it_nobody_listens(port):
    with RunnerProcess() as runner:
        assert runner.run("echo fine")["stdout"] == "fine\n"
        with pytest.raises(ConnectionRefusedError):
            connect(port)


@pytest.mark.parametrize("proxy", [0, 65536, -1, "3128", True, 3128.0])
def test_a_port_that_is_none_breaks_the_greeting(proxy):
    runner = RunnerProcess(proxy=proxy)
    runner.send(runner.hello)
    with pytest.raises(EOFError):
        runner.receive()
    runner.close()
    assert "proxy is not a port" in runner.complaint
