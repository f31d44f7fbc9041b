"""The real Aider in the pot: its model says what to write, and it has no tools but the test command that it is given."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.agents.test_agents import SEARCH
from tests.support.agents import KEY, made_preset, model_address, model_environ, model_tls
from tests.support.model_server import DONE, Script, scripted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program

WORDS = ("--model", "openai/gpt-4o", "--edit-format", "whole", "--no-git", "--yes-always", "--no-show-model-warnings")
# A test that fails is what Aider sends its model.
TEST = "sh search.sh; curl -sS -m 9 http://evil.example/; pwd; false"


def test_headless_it_edits_is_refused_a_host_and_never_sees_its_key(
    crabpot: Program, folder: Path, place: Path
) -> None:
    (folder / "made.txt").write_text("before\n")
    (folder / "search.sh").write_text(SEARCH)
    if os.geteuid() == 0:
        os.chown(folder / "made.txt", 61234, 61234)
    script = Script(last=f"made.txt\n```\nmade\n```\n\n{DONE}")
    with scripted(script, model_tls(place), model_address()):
        made_preset(crabpot, "aider", script.port)
        base = {"OPENAI_API_BASE": f"https://{model_address()}:{script.port}/v1"}
        at = replace(crabpot, more={**model_environ(place), **base})
        words = ("--env", "OPENAI_API_BASE", "--", "aider", *WORDS, "--auto-test", "--test-cmd", TEST)
        done = at("run", "--in", str(folder), *words, "--message", "do it", "made.txt")
    assert done.code == 0, done.err
    assert DONE in done.out
    assert any(KEY in key for key in script.keys), "the server got the real key"
    heard = b"".join(script.bodies).decode()
    assert KEY not in heard + done.out + done.err
    assert "evil.example:80 was refused" in heard
    assert str(folder) in heard, "the folder is at its own path"
    assert "it is in" not in done.out + heard
    assert "searched" in done.out
    assert "~ made.txt" in done.err
    assert (folder / "made.txt").read_text() == "before\n", "the folder is as it was"
    session = done.err.split("--session ")[1].split()[0]
    assert crabpot("changes", "apply", "--session", session, "made.txt").code == 0
    assert (folder / "made.txt").read_text() == "made\n"
