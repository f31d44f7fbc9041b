"""What a shim says may have been said by anything inside: it is read as words and a folder, or refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crabpot.host_commands.shims import _asked


def asked(**fields: Any) -> tuple[tuple[str, ...], str | None]:
    return _asked(SimpleNamespace(fields=fields))


def test_words_and_folder_are_taken_as_they_are() -> None:
    assert asked(argv=["git", "a b", "", "\n", "é", "\udcff"], cwd="/workspace") == (
        ("git", "a b", "", "\n", "é", "\udcff"),
        "/workspace",
    )
    assert asked(argv=["git"], cwd=None) == (("git",), None)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"argv": None},
        {"argv": []},
        {"argv": "git"},
        {"argv": {"0": "git"}},
        {"argv": [1]},
        {"argv": [["git"]]},
        {"argv": ["git", None]},
        {"argv": ["git\0x"]},
        {"argv": ["\ud800"]},
        {"argv": ["git"], "cwd": 3},
        {"argv": ["git"], "cwd": ["/"]},
        {"argv": ["git"], "cwd": "/a\0b"},
        {"argv": ["git"], "cwd": "\ud800"},
        {"argv": ["git"], "cwd": ""},
        {"argv": ["x"] * 5000},
        {"argv": ["git", "x" * 200_000]},
    ],
)
def test_anything_else_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="argv"):
        asked(**{"cwd": None, **fields})
