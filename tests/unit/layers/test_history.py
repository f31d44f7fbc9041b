"""What a layer keeps of what was: where the agent began, and each file after each look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from crabpot.layers import history
from crabpot.layers.history import Version
from tests.support.layers import Project, project

if TYPE_CHECKING:
    from pathlib import Path

Mechanism = Literal["overlay", "copy"]


def looked(one: Project, script: str) -> list[tuple[str, bytes | None, bytes | None]]:
    """Let the agent work, look, and return what that noted: path, before, after; None for nothing."""
    noted = [*history.noted(one.layer)]
    one.agent(script)
    history.look(one.layer)
    return [(path, text(one, was), text(one, is_)) for path, _, was, is_ in [*history.noted(one.layer)][len(noted) :]]


def text(one: Project, version: Version | None) -> bytes | None:
    return None if version is None else history.content_of(one.layer, version)


@pytest.mark.parametrize("mechanism", ["overlay", "copy"])
def test_each_look_notes_what_changed_since_the_one_before(tmp_path: Path, mechanism: Mechanism) -> None:
    one = project(tmp_path, mechanism, a="one\n", b="b\n")
    assert looked(one, "echo two >> a; ln -s a link") == [("a", b"one\n", b"one\ntwo\n"), ("link", None, b"a")]
    assert looked(one, "echo three >> a; rm b") == [("a", b"one\ntwo\n", b"one\ntwo\nthree\n"), ("b", b"b\n", None)]
    assert looked(one, "true") == []


@pytest.mark.parametrize("mechanism", ["overlay", "copy"])
def test_where_the_agent_began_is_kept_until_the_host_changes_it_and_after(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    one = project(tmp_path, mechanism, a="one\n")
    looked(one, "echo two >> a; echo n > new")
    (one.folder / "a").write_text("the person's\n")
    (one.folder / "new").write_text("the person's\n")
    history.look(one.layer)
    bases = history.bases(one.layer)
    assert text(one, bases["a"]) == b"one\n"
    assert bases["new"] is None


def test_what_the_host_changed_before_the_first_look_is_not_taken_for_the_beginning(tmp_path: Path) -> None:
    one = project(tmp_path, "overlay", a="one\n")
    one.agent("echo two >> a")
    (one.folder / "a").write_text("the person's\n")
    history.look(one.layer)
    assert "a" not in history.bases(one.layer)


def test_a_file_that_is_too_large_is_noted_without_its_content(tmp_path: Path) -> None:
    one = project(tmp_path, "overlay", a="one\n")
    assert looked(one, f"head -c {history.LARGEST_FILE + 1} /dev/zero > a") == [("a", b"one\n", None)]
    assert [noted.after for noted in history.noted(one.layer)] == [Version("100644", None)]


@pytest.mark.parametrize("content", ["", "[]", '{"bases": 1}', '{"bases": {}, "last": []}'])
def test_a_note_that_was_tampered_with_counts_as_none(tmp_path: Path, content: str) -> None:
    one = project(tmp_path, "overlay", a="one\n")
    looked(one, "echo two >> a")
    (tmp_path / "state" / "layers" / one.layer.name / "looked.json").write_text(content)
    assert history.bases(one.layer) == {}
    history.look(one.layer)
    assert text(one, history.bases(one.layer)["a"]) == b"one\n"
