"""One real sandbox, by whoever runs the tests: what `make quick` sees of walls. All of them: tests/escape."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.backends import need
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "agent:main:main"


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    need("bubblewrap")


async def test_a_command_runs_inside_and_finds_nothing_of_the_host(open_folder: Path) -> None:
    (open_folder / "secret").write_text("of the host")
    text = json.dumps({"agents": {"defaults": {"sandbox": {"backend": "bubblewrap"}}}})
    gateway = open_gateway(text, str(open_folder / "state"))
    try:
        made = await gateway.call(SESSION, "write", path="a/b", content="of the agent\n")
        assert made.success, made
        done = await gateway.call(SESSION, "exec", command="cat a/b; id -un; touch /usr/x; cut -d: -f1 /proc/net/dev")
        assert [line.strip() for line in done.stdout.splitlines() if "|" not in line] == ["of the agent", "agent", "lo"]
        assert "Read-only file system" in done.stderr
        gone = await gateway.call(SESSION, "exec", command=f"cat {open_folder}/secret")
        assert (gone.success, "of the host" in gone.stdout, gone.exit_code) == (False, False, 1), gone
    finally:
        await gateway.close()
