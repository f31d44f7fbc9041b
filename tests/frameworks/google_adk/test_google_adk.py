"""Google ADK: the environment by itself, and an agent with a scripted model that works in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from crabpot.integrations.google_adk import CrabpotEnvironment
from tests.frameworks.google_adk.provider import run


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABPOT_STATE", str(tmp_path / "state"))


async def test_commands_and_files_are_of_one_sandbox() -> None:
    environment = CrabpotEnvironment()
    await environment.initialize()
    try:
        await environment.write_file(Path("a/raw.bin"), bytes(range(256)))
        assert await environment.read_file(Path("/workspace/a/raw.bin")) == bytes(range(256))
        done = await environment.execute("pwd; wc -c < a/raw.bin; echo no >&2; exit 3")
        assert (done.exit_code, done.stdout, done.stderr) == (3, "/workspace\n256\n", "no\n")
        late = await environment.execute("sleep 60", timeout=0.5)
        assert late.timed_out
        assert "time limit" in late.stderr
        with pytest.raises(FileNotFoundError):
            await environment.read_file(Path("none"))
    finally:
        await environment.close()
        await environment.close()


async def test_an_agent_works_in_the_sandbox_and_reads_refusals() -> None:
    environment = CrabpotEnvironment()
    script = [
        ("WriteFile", {"path": "sum.py", "content": "print(6 * 7)"}),
        ("EditFile", {"path": "sum.py", "old_string": "7", "new_string": "8"}),
        ("Execute", {"command": "python sum.py; cat /etc/shadow"}),
        ("ReadFile", {"path": "/etc/shadow"}),
    ]
    said = await run(environment, *script)
    assert "48" in said[2]
    assert "/etc/shadow" in said[2]
    assert "error" in said[3]
