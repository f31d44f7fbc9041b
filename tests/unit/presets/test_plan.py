"""From a preset and what a person typed to the settings of a sandbox, and every wish that cannot be had."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.errors import CrabpotError
from crabpot.presets import plan, preset, secret_store
from crabpot.presets.programs import Program
from crabpot.settings import Settings
from crabpot.spec.binds import BindRefused, Surroundings, program

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = Program(argv=("/usr/bin/claude",), shows=(), path=("/usr/bin",))


def _make(around: Surroundings, folder: Path, name: str = "claude", environ: Any = None, **wishes: Any) -> plan.RunPlan:
    wanted = plan.Wishes(folder=str(folder), **{"way": "review", "arguments": ("-p", "hi"), **wishes})
    found = preset.find(name, None)
    return plan.make(name, found, program=PROGRAM, wishes=wanted, around=around, environ=environ or {})


def test_a_run_is_an_ordinary_agent_over_its_folder(around: Surroundings, tmp_path: Path) -> None:
    made = _make(around, tmp_path)
    sandbox = made.agent.sandbox
    assert (sandbox.workspace, sandbox.workspace_at, sandbox.home) == ("review", "same", "claude")
    assert made.argv == ("/usr/bin/claude", "-p", "hi")
    assert not sandbox.network.inject
    assert "ANTHROPIC_BASE_URL" not in sandbox.env, "without a key it logs in by itself"
    assert made.notes
    assert _make(around, tmp_path, way="direct").agent.sandbox.workspace == "rw"
    assert _make(around, tmp_path, way="private").agent.sandbox.workspace == "none"


def test_a_folder_has_one_session_whatever_agent_runs_there(around: Surroundings, tmp_path: Path) -> None:
    assert _make(around, tmp_path, "claude").session == _make(around, tmp_path, "codex").session
    assert plan.session_for("/srv/a") != plan.session_for("/srv/b/a")


@pytest.mark.parametrize(
    ("program", "home"),
    [
        ("agent.sh", "agent-sh"),
        ("python3.11", "python3-11"),
        ("My Agent", "my-agent"),
        ("_x_", "x"),
        ("…", "agent"),
        ("a" * 80, "a" * 64),
    ],
)
def test_a_program_has_a_private_home_whatever_it_is_called(
    program: str, home: str, around: Surroundings, tmp_path: Path
) -> None:
    assert _make(around, tmp_path, program).home == home


def test_a_key_stays_outside_and_a_dummy_goes_in(around: Surroundings, tmp_path: Path) -> None:
    made = _make(around, tmp_path, environ={"ANTHROPIC_API_KEY": "sk-real"})
    (rule,) = made.agent.sandbox.network.inject
    assert (rule.host, rule.tls, rule.value_from.env) == ("api.anthropic.com", "upgrade", "ANTHROPIC_API_KEY")
    assert made.agent.sandbox.env["ANTHROPIC_BASE_URL"] == "http://api.anthropic.com"
    assert "sk-real" not in repr(made)
    secret_store.keep(around.state, "OPENAI_API_KEY", b"sk-file")
    kept = _make(around, tmp_path, "codex")
    assert kept.agent.sandbox.network.inject[0].value_from.file == f"{around.state}/secrets/OPENAI_API_KEY"
    assert kept.argv[1] == "--dangerously-bypass-approvals-and-sandbox"
    assert os.stat(f"{around.state}/secrets/OPENAI_API_KEY").st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"secrets": ("ANTHROPIC_API_KEY",)}, "crabpot secrets set ANTHROPIC_API_KEY"),
        ({"secrets": ("OTHER",)}, "which host is it for"),
        ({"secrets": ("OTHER@a.example",)}, "the key OTHER is missing"),
        ({"env": ("NOT_SET",)}, "no such variable"),
        ({"env": ("A B",)}, "cannot be the name"),
        ({"allow": ("*",)}, "every host"),
        ({"home": "../x"}, "must be a plain name"),
    ],
)
def test_a_wish_that_cannot_be_had_is_a_clear_error(
    wishes: Any, said: str, around: Surroundings, tmp_path: Path
) -> None:
    with pytest.raises(CrabpotError, match=said):
        _make(around, tmp_path, **wishes)


def test_a_run_never_elevates_its_own_command(around: Surroundings, tmp_path: Path) -> None:
    made = plan.settings_for(_make(around, tmp_path), Settings())
    assert not made.agent(plan.AGENT).tools.elevated.enabled


@pytest.mark.parametrize("name", ["", ".ssh", ".config", ".claude", "tools", ".local/bin"])
def test_no_program_shows_a_home_a_first_level_folder_or_credentials(name: str, around: Surroundings) -> None:
    path = os.path.join(around.home, name).rstrip("/")
    os.makedirs(path, exist_ok=True)
    with pytest.raises(BindRefused):
        program(path, around)


def test_a_program_of_its_own_is_shown_read_only_at_its_path(around: Surroundings) -> None:
    for name in (".local/bin/x", ".local/share/claude/x", ".nvm/versions/x"):
        path = os.path.join(around.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").close()
        made = program(path, around)
        assert (made.target, made.access) == (os.path.realpath(path), "ro")
