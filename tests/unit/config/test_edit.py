"""Setting one value: every other byte keeps its meaning, every comment stays, and the file changes in one step."""

from __future__ import annotations

import copy
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crabpot.config.document import Array, Object, Value
from crabpot.config.edit import APPEND, EditRefused, find, parse_path, set_value, write_atomically, written
from crabpot.config.reading import parse

if TYPE_CHECKING:
    from pathlib import Path


def as_python(value: Value) -> Any:
    if isinstance(value, Object):
        return {member.key: as_python(member.value) for member in value.members}
    if isinstance(value, Array):
        return [as_python(item) for item in value.items]
    return value.scalar


def comments(text: str) -> list[str]:
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|//[^\n\r\u2028\u2029]*|/\*.*?\*/', text, re.DOTALL)
    return [token for token in tokens if token.startswith("/")]


LAYOUTS = [
    ("{}", "a", "1", "{ a: 1 }"),
    ("{ }", "a", "1", "{ a: 1 }"),
    ("{a: 1}", "b", "2", "{a: 1, b: 2}"),
    ("{a: 1,}", "b", "2", "{a: 1, b: 2}"),
    ("{ a: 1, }", "b", "2", "{ a: 1, b: 2 }"),
    ("{a: 1 /* c */}", "b", "2", "{a: 1, b: 2 /* c */}"),
    ("{a: 1, /* c */}", "b", "2", "{a: 1, b: 2 /* c */}"),
    ("{/* c */}", "a", "1", "{/* c */ a: 1 }"),
    ("{ // c\n}", "a", "1", "{ // c\n  a: 1,\n}"),
    ("{\n}\n", "a", "1", "{\n  a: 1,\n}\n"),
    ("{\n\ta: 1,\n}", "b", "2", "{\n\ta: 1,\n\tb: 2,\n}"),
    ("{\n    a: 1\n}", "b", "2", "{\n    a: 1,\n    b: 2\n}"),
    ("{\n  a: 1 // one\n}", "b", "2", "{\n  a: 1, // one\n  b: 2\n}"),
    ("{\n  a: 1, // one\n  // last word\n}", "b", "2", "{\n  a: 1, // one\n  // last word\n  b: 2,\n}"),
    ("{\r\n  a: 1,\r\n}\r\n", "b", "2", "{\r\n  a: 1,\r\n  b: 2,\r\n}\r\n"),
    ("{\r a: 1, // c\r}", "b", "2", "{\r a: 1, b: 2 // c\r}"),
    ("{ a: 1,\n  b: 2 }", "c", "3", "{ a: 1,\n  b: 2, c: 3 }"),
    ("{ a: 1,\n  b: 2 // c\n  }", "c", "3", "{ a: 1,\n  b: 2, // c\n  c: 3\n  }"),
    ("{ a: 1 /* x\n y */ }", "b", "2", "{ a: 1, /* x\n y */\n   b: 2 }"),
    ("{ /* a\n b */ }", "x", "1", "{ /* a\n b */\n   x: 1, }"),
    ("{a: [\n  'x', // first\n  // end\n]}", "a[+]", "y", "{a: [\n  'x', // first\n  // end\n  \"y\",\n]}"),
    ("{a: []}", "a[+]", "y", '{a: ["y"]}'),
    ("{a: [1, 2, 3]}", "a[1]", "9", "{a: [1, 9, 3]}"),
    ("{a: [1]}", "a[1]", "2", "{a: [1, 2]}"),
    ("{a: {}}", "a.b.c", "1", "{a: { b: { c: 1 } }}"),
    ("{a: {b: {}}}", "a.b.c[0].d", "x", '{a: {b: { c: [{ d: "x" }] }}}'),
    ("{a: null}", "a.b", "1", "{a: { b: 1 }}"),
    ("{'a b': 1}", '"a b"', "2", "{'a b': 2}"),
    ("{a: 1}", '"x.y"', "2", '{a: 1, "x.y": 2}'),
    ("{a: 'old' /* why */, b: 2}", "a", "'new'", "{a: 'new' /* why */, b: 2}"),
    ("{a: 1}", "a", "{b: [1, 2,],} // not this", "{a: {b: [1, 2,],}}"),
    ("{ x: {a: 1}, y: {\n}}", "x.a", "2 //", "{ x: {a: 2}, y: {\n}}"),
    ("{a: 1}", "a", "/* x */ 5 /* y */", "{a: 5}"),
    ("\ufeff{a: 1} // end", "a", "2", "\ufeff{a: 2} // end"),
]


@pytest.mark.parametrize(("text", "path", "value", "expected"), LAYOUTS)
def test_an_edit_keeps_the_layout(text: str, path: str, value: str, expected: str) -> None:
    assert set_value(text, path, value) == expected
    parse(expected)


KEYS = ["a", "b", "$x", "c d", "\u00e9", "9", "it's"]
GAPS = [
    "",
    "",
    " ",
    "\n",
    "\n  ",
    "\r\n\t",
    "/* c */",
    "// ]} ,\n",
    " /* a\n , b */ ",
    "\t// '\"\r\n  ",
    "\u00a0",
    "// c\r",
    "\u2028",
]
TREES = st.recursive(
    st.integers(-9, 9) | st.booleans() | st.sampled_from(["x", "", "// no comment", "it's", 'q"', "]}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def laid_out(draw: st.DrawFn) -> tuple[Any, str]:
    """Write a tree as nobody would: any gap, comment, quote and comma in any place where JSON5 allows it."""
    tree = draw(st.dictionaries(st.sampled_from(KEYS), TREES, min_size=1, max_size=3))

    def gap() -> str:
        return draw(st.sampled_from(GAPS))

    def quoted(text: str) -> str:
        if draw(st.booleans()):
            return json.dumps(text, ensure_ascii=False)
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def key(text: str) -> str:
        return text if draw(st.booleans()) and re.fullmatch(r"[a-z$\u00e9]+", text) else quoted(text)

    def entries(written_entries: list[str], brackets: str) -> str:
        inner = f"{gap()},{gap()}".join(written_entries)
        tail = f"{gap()}," if draw(st.booleans()) and written_entries else ""
        return f"{brackets[0]}{gap()}{inner}{tail}{gap()}{brackets[1]}"

    def write(value: Any) -> str:
        if isinstance(value, dict):
            return entries([f"{key(name)}{gap()}:{gap()}{write(item)}" for name, item in value.items()], "{}")
        if isinstance(value, list):
            return entries([write(item) for item in value], "[]")
        return quoted(value) if isinstance(value, str) else json.dumps(value)

    return tree, f"{gap()}{write(tree)}{gap()}"


@st.composite
def edits(draw: st.DrawFn) -> tuple[Any, str, str, bool]:
    """Choose a place: a value that is there, a new key, a new item, or something new below something new."""
    tree, text = draw(laid_out())
    at, path = tree, ""
    while isinstance(at, dict | list) and at and draw(st.integers(0, 3)):
        step = draw(st.sampled_from(list(at) if isinstance(at, dict) else list(range(len(at)))))
        at, path = at[step], path + (f"[{step}]" if isinstance(step, int) else f'."{step}"')
    replaced = True
    if isinstance(at, dict | list) and (not path or draw(st.booleans())):
        new = draw(st.sampled_from(["[+]"] if isinstance(at, list) else [".new", ".new.deep", ".new[+]", '."new one"']))
        path, replaced = path + new, False
    return tree, text, path.removeprefix("."), replaced


def expected_after(tree: Any, path: str, value: Any) -> Any:
    made = copy.deepcopy(tree)
    at, steps = made, parse_path(path)
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        empty: Any = value if following is None else [] if isinstance(following, int) else {}
        if step == APPEND:
            at.append(empty)
        elif following is None or (isinstance(at, dict) and step not in at):
            at[step] = empty
        at = at[step]
    return made


@settings(max_examples=150)
@given(
    edit=edits(),
    value=st.sampled_from(["7", "'seven'", "[1, {x: 2,},]", "{k: 'v'}", "5 // five", "plain word", "true"]),
)
def test_an_edit_changes_one_meaning_and_loses_no_comment(edit: tuple[Any, str, str, bool], value: str) -> None:
    tree, text, path, replaced = edit
    assert as_python(parse(text)) == tree
    changed = set_value(text, path, value)
    new = as_python(parse(written(value)))
    assert as_python(parse(changed)) == expected_after(tree, path, new)
    if replaced:
        before = find(parse(text), parse_path(path))
        assert before is not None
        assert changed == text[: before.start] + written(value) + text[before.end :]
    else:
        assert comments(changed) == comments(text)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ["a"]),
        ("a.b-c", ["a", "b-c"]),
        ("a[0][12].b", ["a", 0, 12, "b"]),
        ("a[+]", ["a", APPEND]),
        ('"a.b".c', ["a.b", "c"]),
        ('a."".b', ["a", "", "b"]),
        ('a."\t"', ["a", "\t"]),
        ("agents.entries.ops", ["agents", "entries", "ops"]),
    ],
)
def test_a_path_is_keys_and_indexes(path: str, steps: list[str | int]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        ".a",
        "a.",
        "a..b",
        "a[",
        "a[]",
        "a[x]",
        "a[-1]",
        "a[0]b",
        'a"b"',
        '"a',
        "[1e3]",
        "a[" + "9" * 5000 + "]",
    ],
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(EditRefused):
        parse_path(path)


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("{a: 1}", "a.b", "a is not an object"),
        ("{a: 'x'}", "a[0]", "a is not a list"),
        ("{a: {}}", "a[0]", "a is not a list"),
        ("{a: []}", "a.b", "a is not an object"),
        ("{a: [1]}", "a[2]", "a has 1 item;"),
        ("{}", "a[1]", "there is no list"),
        ("[]", "a", "the file is not an object"),
    ],
)
def test_an_edit_that_has_no_place_is_refused(text: str, path: str, said: str) -> None:
    with pytest.raises(EditRefused, match=re.escape(said)):
        set_value(text, path, "1")


@pytest.mark.parametrize("value", ["{", "[1", "'a", '"a', "", "  ", "a\nb", "{a: 1, a: 2}"])
def test_a_value_that_is_broken_json5_is_refused_and_not_taken_for_a_word(value: str) -> None:
    with pytest.raises(EditRefused, match="not JSON5"):
        written(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [("off", '"off"'), ("git push *", '"git push *"'), ("5m", '"5m"'), ("-", '"-"'), ("5", "5"), ("null", "null")],
)
def test_a_bare_word_is_a_string(value: str, text: str) -> None:
    assert written(value) == text


def test_a_file_is_replaced_in_one_step_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "c.json5"
    file.write_text("{}")
    file.chmod(0o640)
    before = file.stat().st_ino
    with file.open() as reader:
        write_atomically(str(file), "{a: 1}\r\n\ufeff")
        assert reader.read() == "{}", "whoever reads sees the old file whole, never half of the new one"
    assert file.read_bytes() == b"{a: 1}\r\n\xef\xbb\xbf"
    assert file.stat().st_mode & 0o777 == 0o640
    assert file.stat().st_ino != before
    assert os.listdir(tmp_path) == ["c.json5"]


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    write_atomically(str(tmp_path / "new/folder/c.json5"), "{}")
    assert (tmp_path / "new/folder/c.json5").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new/folder").stat().st_mode & 0o077 == 0


def test_a_link_stays_a_link_and_what_it_leads_to_changes(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real, link = tmp_path / "dotfiles/real.json5", tmp_path / "c.json5"
    real.write_text("{}")
    link.symlink_to("dotfiles/real.json5")
    write_atomically(str(link), "{a: 1}")
    assert link.is_symlink()
    assert real.read_text() == "{a: 1}"


def test_a_write_that_fails_leaves_the_file_and_no_litter(tmp_path: Path) -> None:
    file = tmp_path / "c.json5"
    file.write_text("{}")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(str(file), "{a: '\ud800'}")
    assert (file.read_text(), os.listdir(tmp_path)) == ("{}", ["c.json5"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_does_not_take_a_users_file_away(tmp_path: Path) -> None:
    file = tmp_path / "c.json5"
    file.write_text("{}")
    os.chown(file, 65534, 65534)
    write_atomically(str(file), "{a: 1}")
    assert (file.stat().st_uid, file.stat().st_gid) == (65534, 65534)
