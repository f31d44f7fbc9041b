"""JSON5 as the reader takes it: what is one, where everything stands, and what is refused."""

from __future__ import annotations

from typing import Any

import json5
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crabpot.config.document import Array, Object, SyntaxProblem, Value, is_null, kind, line_of, plain
from crabpot.config.reading import MAX_DEPTH, parse


def as_python(value: Value) -> Any:
    """Return the tree with its nulls, as another reader of JSON5 would."""
    if isinstance(value, Object):
        return {member.key: as_python(member.value) for member in value.members}
    if isinstance(value, Array):
        return [as_python(item) for item in value.items]
    return value.scalar


def refusal_of(text: str) -> SyntaxProblem | None:
    try:
        parse(text)
    except SyntaxProblem as problem:
        return problem
    return None


CONFORMING: list[tuple[str, Any]] = [
    ("{}", {}),
    ("[]", []),
    ("[1,]", [1]),
    ("{a:1,}", {"a": 1}),
    ("// c\n{}", {}),
    ("{} // end", {}),
    ("/* a\n b */ {} /**/", {}),
    ("{/* * / ** */a:1}", {"a": 1}),
    ("'it\\'s'", "it's"),
    ('"a\\\nb"', "ab"),
    ('"a\\\r\nb"', "ab"),
    ('"a\\\rb"', "ab"),
    ('"a\\\u2028b"', "ab"),
    ('"a\u2028b"', "a\u2028b"),
    ('"\\x41\\u0042\\ud83d\\ude00"', "AB\U0001f600"),
    ('"\\0\u00b2"', "\0\u00b2"),
    ('"\\b\\f\\n\\r\\t\\v\\0"', "\b\f\n\r\t\v\0"),
    ('"\\a\\\'\\/"', "a'/"),
    ("0x1F", 31),
    ("-0x1f", -31),
    ("+1", 1),
    ("-0", 0),
    (".5", 0.5),
    ("5.", 5.0),
    ("1e3", 1000.0),
    ("1E-2", 0.01),
    ("{$a_1: 1, _b: 2, \u00e4\u00f6: 3}", {"$a_1": 1, "_b": 2, "\u00e4\u00f6": 3}),
    ("{\\u0061b: 1}", {"ab": 1}),
    ("{a\u200cb: 1}", {"a\u200cb": 1}),
    ("{true: 1, null: 2}", {"true": 1, "null": 2}),
    ("{'a b': 1, \"\": 2}", {"a b": 1, "": 2}),
    ("\ufeff\u00a0\u2003\t\v\f[\u20281\u2029]", [1]),
]


@pytest.mark.parametrize(("text", "expected"), CONFORMING)
def test_reads_what_json5_is(text: str, expected: Any) -> None:
    assert as_python(parse(text)) == expected


NOT_JSON5 = [
    *("", " ", "//", "/* a", "{", "[", "[1", "{a", "{a:", "{a:1", "[,]", "{,}", "[1,,2]", "{a:1,,}"),
    *("{a 1}", "{1a:1}", "{a-b:1}", "{\u00b2:1}", "{\u200ca:1}", "{\\u0031:1}", "{\\x61:1}", "{:1}", "{[1]:1}"),
    *('"a', "'a\"", '"a\nb"', '"a\rb"', '"\\x4"', '"\\u12g4"', '"\\1"', '"\\01"', '"\\'),
    *("01", "0x", "0xg", "1e", "1e+", "+", "-", ".", "1_000", "0b1", "0o7", "1.2.3", "--1", "- 1", "1a"),
    *("tru", "True", "undefined", "off", "yes", "'a' 'b'", "{} {}", "[] 1", "\\u0074rue", "#c\n{}", "{a:1}}"),
    *("\x85{}", "\x1c{}", "\0", "{\u180ea:1}", "`a`", "{...a}", "[1 2]"),
]


@pytest.mark.parametrize("text", NOT_JSON5)
def test_refuses_what_json5_is_not(text: str) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse(text)
    assert 0 <= caught.value.offset <= len(text)
    assert str(caught.value)


@pytest.mark.parametrize(
    "text", ["Infinity", "-Infinity", "NaN", "+NaN", "1e999", "[-1e999]", "9" * 41, "0x" + "f" * 39]
)
def test_refuses_numbers_that_no_setting_can_have(text: str) -> None:
    with pytest.raises(SyntaxProblem, match="number"):
        parse(text)


@pytest.mark.parametrize("text", [r'"\ud800"', r'"\udc00\ud800"', r'"a\ud83d"', r"{'\udfff': 1}"])
def test_refuses_half_of_a_surrogate_pair(text: str) -> None:
    with pytest.raises(SyntaxProblem, match="surrogate"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["{a:1,a:2}", "{a:1,'a':2}", '{"a":1,"\\u0061":2}', "{a:1,\\u0061:2}", "{x:{k:1,b:2,k:null}}"]
)
def test_refuses_a_key_written_twice_however_it_is_spelt(text: str) -> None:
    with pytest.raises(SyntaxProblem, match="duplicate key"):
        parse(text)


def test_says_at_which_character_the_second_one_of_two_equal_keys_stands() -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse("{\n a: 1,\n a: 2\n}")
    assert caught.value.offset == 10


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_nesting_is_bounded(pair: str) -> None:
    opening, closing = ("[", "]") if pair == "[]" else ("{a:", "}")
    parse(opening * MAX_DEPTH + "1" + closing * MAX_DEPTH)
    with pytest.raises(SyntaxProblem, match="nested deeper than 64"):
        parse(opening * (MAX_DEPTH + 1) + "1" + closing * (MAX_DEPTH + 1))
    with pytest.raises(SyntaxProblem, match="nested deeper than 64"):
        parse(opening * 300_000)


def test_every_value_knows_its_text_and_its_path() -> None:
    text = "{ a: {'b c': [ 1, {d: \"x\"} ] } } // end"
    root = parse(text)
    seen = {}

    def visit(value: Value) -> None:
        seen[value.path] = text[value.start : value.end]
        for below in [m.value for m in value.members] if isinstance(value, Object) else getattr(value, "items", ()):
            visit(below)

    visit(root)
    assert seen == {
        "": text[:-7],
        "a": "{'b c': [ 1, {d: \"x\"} ] }",
        'a."b c"': '[ 1, {d: "x"} ]',
        'a."b c"[0]': "1",
        'a."b c"[1]': '{d: "x"}',
        'a."b c"[1].d': '"x"',
    }


@pytest.mark.parametrize(
    ("text", "line"), [("a", 1), ("\na", 2), ("\r\na", 2), ("\ra", 2), ("\n\r\n\ra", 4), ("\n\na", 3)]
)
def test_lines_are_counted_from_one_whatever_ends_them(text: str, line: int) -> None:
    assert line_of(text, text.index("a")) == line


def test_a_null_member_is_left_out_and_a_null_item_is_not() -> None:
    assert plain(parse("{a: null, b: [null], c: {d: null}}")) == {"b": (None,), "c": {}}


@pytest.mark.parametrize(
    ("text", "name"),
    [("{}", "an object"), ("[]", "a list"), ("''", "a string"), ("true", "true or false"), ("1", "a number")],
)
def test_a_value_is_named_for_people(text: str, name: str) -> None:
    assert kind(parse(text)) == name
    assert not is_null(parse(text))


# Without NUL: the writer below makes "\\00" of NUL and "0", which is not JSON5.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.floats(-1e15, 1e15) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=15,
)


@given(value=JSON, trailing=st.booleans(), quote_keys=st.booleans(), indent=st.sampled_from([None, 2, "\t"]))
def test_reads_back_whatever_another_writer_of_json5_writes(
    value: Any, *, trailing: bool, quote_keys: bool, indent: int | str | None
) -> None:
    text = json5.dumps(value, trailing_commas=trailing, quote_keys=quote_keys, indent=indent, ensure_ascii=False)
    assert as_python(parse(text)) == value


# Weighted to what a grammar can go wrong about, so that many texts are nearly JSON5.
NEARLY = st.lists(
    st.sampled_from(
        [
            *"{}[]:,'\"\\/*+-.0123456789eExXabf_$ \n\r\t",
            *("//", "/*", "*/", "null", "true", "0x", "\\u0061", "\\x61", "a:", "'a'", "1", "{a:1}", "[1]", "\\\n"),
            *("\u2028", "\u00a0", "\ufeff", "\u00e9", "\x85", "\x1f"),
        ]
    ),
    max_size=10,
).map("".join)


@given(text=NEARLY)
@example(text="{a:1 /**/, // c\r b:2}")
@example(text="[1\u2029]")
def test_agrees_with_another_reader_of_json5(text: str) -> None:
    try:
        expected, accepted = json5.loads(text, allow_duplicate_keys=False), True
    except (ValueError, RecursionError, OverflowError):
        expected, accepted = None, False
    problem = refusal_of(text)
    if problem is None:
        assert accepted, f"{text!r} is not JSON5, and was read as {as_python(parse(text))!r}"
        assert as_python(parse(text)) == expected
    elif not any(word in str(problem) for word in ("number", "surrogate", "nested")):
        assert not accepted, f"{text!r} is JSON5, and means {expected!r}: {problem}"


@given(text=st.text(max_size=60) | NEARLY)
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    problem = refusal_of(text)
    assert problem is None or 0 <= problem.offset <= len(text)
