"""Real tools with a key that stays outside, by TLS that ends at the gateway: they have no base URL for plain HTTP."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.agents.test_agents import SEARCH
from tests.support.agents import KEY, model_address, model_environ, model_name, model_tls
from tests.support.model_server import Script, scripted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program

TOOLS = {
    "npm": ("npm", "ping", "--registry", "{url}"),
    "pip": (f"{os.environ.get('CRABPOT_AGENTS')}/python/bin/pip", "download", "--index-url", "{url}/simple", "nothing"),
    "git": ("git", "ls-remote", "{url}/repository"),
    "curl": ("curl", "-sS", "{url}/"),
    "a shell": ("shell", "-c", "curl -sS {url}/; sh search.sh"),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_its_server_gets_the_key_and_it_does_not(tool: str, crabpot: Program, folder: Path, place: Path) -> None:
    (folder / "search.sh").write_text(SEARCH)
    with scripted(Script(), model_tls(place), model_address(named=True)) as server:
        where = f"{model_name()}:{server.port}"
        at = replace(crabpot, more={**model_environ(place), "PATH": os.environ["PATH"], "TOKEN": KEY})
        words = ("--allow", f"{model_address(named=True)}:{server.port}", "--secret", f"TOKEN@{where}", "--")
        given = [word.format(url=f"https://{where}") for word in TOOLS[tool]]
        done = at("run", "--in", str(folder), *words, *given)
    assert f"Bearer {KEY}" in server.keys, (done, server.keys)
    assert KEY not in done.out + done.err
    assert "certificate" not in done.err.lower()
    assert "it is in" not in done.out
    assert ("searched" in done.out) is (tool == "a shell")
