"""edit: the one place that was meant, everything else to the byte."""

from __future__ import annotations

import os
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.runner.core.failure import ToolError
from crabpot.runner.files import file_tools
from crabpot.runner.files.atomic import Replacement
from crabpot.runner.files.target import Target
from crabpot.runner.files.text import Occurrences, unify
from tests.unit.runner.file_checks import code, content, fails, leftovers


def test_edit_replaces_what_stands_once(ctx, ws) -> None:
    (ws / "f").write_text("one two three two\n")
    os.chmod(ws / "f", 0o755)
    assert file_tools.edit({"path": "f", "old": "one", "new": "1"}, ctx)["data"] == {"replacements": 1}
    got, message = fails(file_tools.edit, {"path": "f", "old": "two", "new": "2"}, ctx)
    assert (got, "2 times" in message) == ("ambiguous_match", True)
    assert file_tools.edit({"path": "f", "old": "two", "new": "", "all": True}, ctx)["data"] == {"replacements": 2}
    assert code(file_tools.edit, {"path": "f", "old": "two", "new": "2"}, ctx) == "no_match"
    assert code(file_tools.edit, {"path": "none", "old": "two", "new": "2"}, ctx) == "not_found"
    assert code(file_tools.edit, {"path": "no/ne", "old": "two", "new": "2"}, ctx) == "not_found"
    assert (ws / "f").read_text() == "1  three \n"
    assert stat.S_IMODE(os.stat(ws / "f").st_mode) == 0o755
    assert leftovers(ws) == []


def test_overlapping_occurrences_are_ambiguous(ctx, ws) -> None:
    (ws / "f").write_text("aaa")
    assert code(file_tools.edit, {"path": "f", "old": "aa", "new": "b"}, ctx) == "ambiguous_match"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n"),
        (b"a\nb\r\nc\n", "a", "x\ny", b"x\ny\nb\r\nc\n"),
        (b"a\nb\r\nc\n", "b", "x\ny", b"a\nx\r\ny\r\nc\n"),
        (b"a\nb\r\nc\n", "a\nb\nc", "x\ny", b"x\ny\n"),
        (b"a\nb\n", "a\r\nb", "x\ny", b"x\ny\n"),
        (b"\xef\xbb\xbfa\r\nb", "a\nb", "x\ny", b"\xef\xbb\xbfx\r\ny"),
        (b"\xef\xbb\xbfab", "\ufeffa", "x", b"\xef\xbb\xbfxb"),
        (b"\xef\xbb\xbfab", "\ufeffa", "\ufeffx", b"\xef\xbb\xbfxb"),
        (b"latin \xe9 one", "one", "two", b"latin \xe9 two"),
        (b"no newline", "no", "a\nb", b"a\nb newline"),
        (b"a\r\nlast", "last", "x\ny", b"a\r\nx\r\ny"),
        (b"cr\ronly\r", "only", "x\ny", b"cr\rx\ny\r"),
    ],
)
def test_edit_keeps_line_endings_and_mark(before, old, new, after, ctx) -> None:
    writer = file_tools.InputWriter({"path": "f"}, ctx)
    writer.write(before)
    writer.commit()
    file_tools.edit({"path": "f", "old": old, "new": new}, ctx)
    assert content({"path": "f", "encoding": "base64"}, ctx) == after


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(st.tuples(st.text(alphabet="ab", max_size=2), st.sampled_from([b"\n", b"\r\n"])), max_size=6),
    old=st.text(alphabet="ab\n", min_size=1, max_size=3),
    new=st.text(alphabet="xy\n", max_size=4),
)
def test_an_edit_reads_like_a_replacement_in_the_text_with_newlines_alone(pieces, old, new) -> None:

    body = b"".join(line.encode() + ending for line, ending in pieces)
    occurrences = Occurrences(body, old.encode())
    plain = unify(body).decode()
    if old in plain:
        changed, count = occurrences.replaced(new.encode())
        assert unify(changed).decode() == plain.replace(old, new)
        assert count == plain.count(old)
        if b"\n" not in body.replace(b"\r\n", b""):
            assert b"\n" not in changed.replace(b"\r\n", b"") or b"\r\n" not in body
    else:
        assert occurrences.count == 0


def test_an_edit_of_a_file_that_changes_meanwhile_is_a_conflict(ctx, ws) -> None:

    (ws / "f").write_text("one")
    target = Target(ctx, "f")
    target.read(100)
    replacement = Replacement(target, target.previous)
    (ws / "f").write_text("other")
    with pytest.raises(ToolError) as caught:
        target.check_unchanged()
    assert caught.value.code == "conflict"
    replacement.abort()
    target.close()
    assert leftovers(ws) == []
    assert (ws / "f").read_text() == "other"


def test_a_file_too_large_to_edit_is_refused(ctx, ws) -> None:
    with open(ws / "big", "wb") as file:
        file.truncate(file_tools.EDIT_LIMIT + 1)
    got, message = fails(file_tools.edit, {"path": "big", "old": "a", "new": "b"}, ctx)
    assert (got, "16 MiB" in message) == ("invalid_arguments", True)
