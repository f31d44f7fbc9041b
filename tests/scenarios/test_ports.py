"""`crabpot ports` through a gateway that serves: from other terminals, for each of its sandboxes."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import need
from tests.support.waiting import wait_until
from tests.support.websockets import SERVER, said_back

if TYPE_CHECKING:
    from tests.support.program import Program

SESSIONS = ("agent:main:one", "agent:main:two")


def _serve_inside(crabpot: Program, session: str) -> None:
    """Start the page inside, and wait until it listens."""
    call = ("call", "--session", session)
    assert crabpot(*call, "write", "--args", json.dumps({"path": "server.py", "content": SERVER})).code == 0
    background = {"command": "exec python3 server.py", "background": True}
    process = crabpot(*call, "exec", "--args", json.dumps(background)).json["data"]["process"]
    poll = json.dumps({"action": "poll", "id": process})
    wait_until(lambda: "up" in crabpot(*call, "process", "--args", poll).json["stdout"])


def test_ports_of_served_sandboxes_are_listed_opened_and_closed_and_a_websocket_works(crabpot: Program) -> None:
    need("bubblewrap")
    with crabpot.serving():
        for session in SESSIONS:
            _serve_inside(crabpot, session)
        assert crabpot("ports", "list").out.startswith("no ports are open")
        assert "which sandbox" in crabpot("ports", "open", "3000").said()
        opened = {}
        for session in SESSIONS:
            rows = crabpot("ports", "open", "3000", "--session", session, "--json").json
            (opened[session],) = [row for row in rows if row["session"] == session]
        ports = {session: int(row["address"].rsplit(":", 1)[1]) for session, row in opened.items()}
        assert len(set(ports.values())) == len(SESSIONS), "one origin each"
        assert {row["session"] for row in crabpot("ports", "list", "--json").json} == set(SESSIONS)
        for port in ports.values():
            assert said_back(port, b"crab") == b"crab"
        one, other = SESSIONS
        held = socket.create_connection(("127.0.0.1", ports[one]), 60)
        assert crabpot("ports", "close", "3000", "--session", one).code == 0
        assert held.recv(1) == b"", "what was connected there is closed too"
        held.close()
        with pytest.raises(ConnectionError):
            socket.create_connection(("127.0.0.1", ports[one]), 60)
        assert said_back(ports[other], b"still") == b"still"
        assert crabpot("sandboxes", "stop", other).code == 0
        with pytest.raises(ConnectionError):
            socket.create_connection(("127.0.0.1", ports[other]), 60)
        assert "not open" in crabpot("ports", "close", "3000", "--session", one).said()
        for wrong in ("0", "65536", "http"):
            assert crabpot("ports", "open", wrong, "--session", one).code == 2, wrong
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", ports[one]), 60)
    assert "no gateway runs" in crabpot("ports", "list").said()
