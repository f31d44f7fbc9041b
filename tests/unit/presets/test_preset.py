"""Presets load, the user's own come first, and what is wrong with one is said with its file, line and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crabpot.errors import ConfigError
from crabpot.presets import preset

if TYPE_CHECKING:
    from pathlib import Path

OURS = ["aider", "claude", "codex", "gemini", "openclaw", "opencode", "shell"]


def test_every_preset_of_ours_loads() -> None:
    assert preset.names(None) == OURS
    for name in OURS:
        found = preset.find(name, None)
        assert found is not None
        assert found.program
        assert all(host.endswith(":443") for host in found.hosts), "nothing goes out in plain text"


def test_claude_takes_the_dummy_for_a_key_that_it_may_use() -> None:
    found = preset.find("claude", None)
    assert found is not None
    assert found.secrets[0].dummy[-20:] in found.home.seed[".claude.json"]


def test_the_users_own_preset_comes_before_ours(tmp_path: Path) -> None:
    (tmp_path / "claude.json5").write_text("{program: 'other', hosts: ['a.example']}")
    (tmp_path / "mine.json5").write_text("{program: 'mine'}")
    assert preset.names(str(tmp_path)) == sorted([*OURS, "mine"])
    found = preset.find("claude", str(tmp_path))
    assert found is not None
    assert (found.program, found.hosts) == ("other", ("a.example",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{program: 'x'", "x.json5:1"),
        ("{}", '"program" is missing'),
        ("{program: 'x', host: []}", "did you mean"),
        ("{program: 7}", "must be a string"),
        ("{program: 'x',\n hosts: ['*']}", "every host"),
        ("{program: 'x', secrets: [{env: 'A B', host: 'a.example', header: 'X'}]}", "name variables"),
        ("{program: 'x', secrets: [{env: 'A', host: 'a.example', header: 'X: y'}]}", "name of a header"),
        ("{program: 'x', home: {seed: {'../x': 'y'}}}", "below the private home"),
        ("{program: 'x', home: {seed: {'/x': 'y'}}}", "below the private home"),
    ],
)
def test_a_preset_that_does_not_load_says_why(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.json5").write_text(text)
    with pytest.raises(ConfigError) as refused:
        preset.find("x", str(tmp_path))
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["../claude", "/etc/passwd", "", "Claude", "x\n"])
def test_a_name_leads_nowhere_else(name: str, tmp_path: Path) -> None:
    assert preset.find(name, str(tmp_path)) is None
