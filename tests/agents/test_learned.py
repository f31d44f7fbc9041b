"""What one session of the real Claude Code teaches: it runs again under it, and a hostile one is refused."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tests.agents.test_prefix import claude
from tests.support.model_server import Script

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.program import Program

SESSION = "agent:learner:main"


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a page")

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def pages() -> Iterator[str]:
    """Serve a page on the loopback, at the place that is returned."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_same_session_runs_again_and_a_hostile_one_is_refused(lingering: Program, folder: Path) -> None:
    host = os.uname().nodename
    with pages() as used, pages() as unused:
        wide = {"enabled": True, "patterns": ["uname *"], "requireApproval": False}
        sandbox = {"network": {"allow": [used, unused]}}
        lingering.configure(
            json.dumps({"agents": {"entries": {"learner": {"sandbox": sandbox}}}, "tools": {"elevated": wide}})
        )
        shown = lingering("prefix", "claude", "--workspace", str(folder), "--session", SESSION)
        prefix = shown.out.strip().partition("=")[2]
        honest = (f"curl -s http://{used}/", "uname -n", "echo made > made.txt; cat made.txt")
        hostile = (f"curl -s http://{unused}/", "uname -s -n", "cat made.txt")

        def heard(*commands: str) -> list[str]:
            return claude(lingering, Script(*commands), folder, CLAUDE_CODE_SHELL_PREFIX=prefix)

        first = heard(*honest)
        assert first == ["a page", host, "made"]
        told = lingering("learn", "--session", SESSION, "--write")
        assert told.code == 0, told.err
        assert "hostile" not in told.out
        assert f'agents.entries.learner.sandbox.network.allow: ["{used}"]' in told.out
        assert 'agents.entries.learner.tools.elevated.patterns: ["uname -n"]' in told.out
        assert 'agents.entries.learner.tools.allow: ["exec"' in told.out

        assert heard(*honest) == first, "it needed no more than was learned"
        page, named, own = heard(*hostile)
        assert f"the connection to {unused} was refused" in page
        assert "a page" not in page
        assert named != f"Linux {host}", "it ran inside, which has a name of its own"
        assert named.startswith("Linux ")
        assert own == "made"
    again = lingering("learn", "--session", SESSION)
    assert "It was refused something, so it may have been hostile" in again.out
    assert f"a connection to {unused}" in again.out
