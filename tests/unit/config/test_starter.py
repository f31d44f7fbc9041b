"""The file that `crabpot init` writes says what holds anyway, and every key that it explains is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crabpot.config import starter
from crabpot.config.document import Object
from crabpot.config.edit import set_value
from crabpot.config.reading import parse
from crabpot.decide import check
from crabpot.settings import Tools

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import Settings
    from crabpot.spec.binds import Surroundings


def test_every_value_of_the_starter_is_the_default(load_text: Callable[[str], Settings]) -> None:
    started, empty = load_text(starter.TEXT), load_text("{}")
    assert started.defaults.sandbox == empty.defaults.sandbox
    assert started.defaults.workspace == empty.defaults.workspace
    assert started.defaults.tools == empty.defaults.tools == Tools()


def test_nothing_in_the_starter_needs_a_second_look(load_text: Callable[[str], Settings], around: Surroundings) -> None:
    assert check.findings(load_text(starter.TEXT).defaults, around) == []


def test_every_setting_of_the_starter_has_a_comment() -> None:
    root = parse(starter.TEXT)
    assert isinstance(root, Object)
    lines = starter.TEXT.split("\n")
    for key in ("mode", "scope", "workspace", "backend", "network", "binds", "limits", "deny", "elevated"):
        at = next(number for number, line in enumerate(lines) if line.strip().startswith(f"{key}:"))
        assert lines[at - 1].strip().startswith("//"), key


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("agents.defaults.sandbox.mode", "non-main"),
        ("agents.defaults.sandbox.binds[+]", '"/srv/a:/a"'),
        ("tools.deny[+]", "group:automation"),
        ("tools.elevated.patterns[+]", "git push *"),
        ("agents.entries.ops.tools.profile", "coding"),
    ],
)
def test_the_starter_can_be_edited_and_keeps_every_comment(
    path: str, value: str, load_text: Callable[[str], Settings]
) -> None:
    changed = set_value(starter.TEXT, path, value)
    load_text(changed)
    assert [line for line in changed.split("\n") if "//" in line] == [
        line for line in starter.TEXT.split("\n") if "//" in line
    ]
