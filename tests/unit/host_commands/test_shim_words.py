"""What a shim says may have been said by anything inside: it is read as words and a folder, or refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crabpot.host_commands.shims import _parse


def asked(question: bytes) -> tuple[tuple[str, ...], str | None]:
    upcall: Any = SimpleNamespace(question=question)
    return _parse(upcall)


def test_words_and_folder_are_taken_as_they_are() -> None:
    assert asked(b"/workspace\0git\0a b\0\0\n\0\xc3\xa9\0\xff") == (
        ("git", "a b", "", "\n", "\u00e9", "\udcff"),
        "/workspace",
    )
    assert asked(b"\0git") == (("git",), None)


@pytest.mark.parametrize(
    "question",
    [b"", b"/workspace", b"/" + b"\0x" * 5000, b"/\0git\0" + b"x" * 200_000, b"\0" * 139_264],
    ids=["nothing", "no word", "many words", "a long word", "many empty words"],
)
def test_anything_else_is_refused(question: bytes) -> None:
    with pytest.raises(ValueError, match="argv"):
        asked(question)
