"""The program of the documentation runs as it is written."""

from __future__ import annotations

from tests.frameworks.examples import run


def test_the_program_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CRABPOT_STATE", str(tmp_path))
    assert "hello from the sandbox" in run("OpenAI Agents")
