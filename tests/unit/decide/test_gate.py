"""The gate: what the host would execute without being asked waits, what a person runs is marked."""

from __future__ import annotations

import pytest

from crabpot.decide import gate
from crabpot.decide.host_executed import ASKED, UNASKED

_HELD = (
    *(".git/hooks/pre-commit", ".git/config", ".envrc", ".vscode/tasks.json", ".vscode/settings.json", ".idea/x.xml"),
    *(".claude/settings.json", ".mcp.json", ".cursor/mcp.json", ".codex/config.toml", ".pre-commit-config.yaml"),
    *(".github/workflows/ci.yml", ".gitlab-ci.yml", "x.pth", "lib/site-packages/evil.pth", "sitecustomize.py"),
    *("tests/conftest.py", ".venv/bin/python", "venv/bin/activate", "node_modules/.bin/eslint", ".npmrc"),
    *(".cargo/config.toml", "build.rs", "crates/a/build.rs", "sub/.git/hooks/x", "__pycache__/a.cpython-311.pyc"),
)
_FREE = ("src/main.py", "README.md", "docs/git.md", "node_modules/left-pad/index.js", "rebuild.rs", "my.envrc.txt")
_MARKED = ("Makefile", "sub/package.json", "pyproject.toml", "Dockerfile", "a/b/c.mk")


@pytest.mark.parametrize("path", _HELD)
def test_what_the_host_executes_unasked_is_held(path: str) -> None:
    assert gate.gate(path)


@pytest.mark.parametrize("path", [*_FREE, *_MARKED])
def test_ordinary_files_are_not_held(path: str) -> None:
    assert gate.gate(path) is None


@pytest.mark.parametrize("path", _MARKED)
def test_what_a_person_runs_is_marked(path: str) -> None:
    assert gate.mark(path)


@pytest.mark.parametrize("path", [".VSCode/Tasks.json", ".GIT/HOOKS/x", ".g\u200cit/hooks/x", "ＣＯＮＦＴＥＳＴ.py"])
def test_letter_case_and_invisible_characters_open_no_way_around(path: str) -> None:
    assert gate.gate(path)


@pytest.mark.parametrize(
    ("path", "target", "held"),
    [
        ("a", "/etc/passwd", True),
        ("a", "..", True),
        ("a/b", "..", False),
        ("a/b", "../c", False),
        ("a/b", "../../c", True),
        ("a", "b/../../c", True),
        ("a", "b/..", True),
        ("a", "b/c", False),
        ("a", ".git/config", True),
        ("a", ".", False),
    ],
)
def test_a_link_that_leads_out_is_held(path: str, target: str, held: bool) -> None:  # noqa: FBT001
    assert (gate.gate_of_link(path, target) is not None) is held


def test_attributes_are_held_where_they_name_a_driver() -> None:
    assert gate.gate_of_attributes(".gitattributes", b"*.png binary\n* text=auto\n") is None
    assert gate.gate_of_attributes("sub/.gitattributes", b"*.py filter=lfs\n")
    assert gate.gate_of_attributes(".gitattributes", b"* diff=x")
    assert gate.gate_of_attributes(".gitattributes", None)
    assert gate.gate_of_attributes("other", None) is None


def test_every_rule_says_why_and_no_pattern_stands_twice() -> None:
    patterns = [pattern.casefold() for rule in (*UNASKED, *ASKED) for pattern in rule.patterns]
    assert sorted(patterns) == sorted(set(patterns))
    assert all(rule.reason and rule.patterns for rule in (*UNASKED, *ASKED))
