"""Parse JSON5 into the tree of `document`, or say where and why not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crabpot.config.document import Array, Member, Object, SyntaxProblem, Value, join

if TYPE_CHECKING:
    from crabpot.config.document import Scalar

MAX_DEPTH = 64

_BLANKS = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
SPACE = re.compile(rf"(?:[{_BLANKS}]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_NAME = re.compile(rf"(?:[A-Za-z0-9_$]|\\u[0-9a-fA-F]{{4}}|[^\x00-\x7f{_BLANKS}])+")
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|Infinity|NaN|(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)
_PLAIN = {quote: re.compile(rf"[^{quote}\\\n\r]*") for quote in "\"'"}
_ESCAPES = {
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "0": "\0",
    "\n": "",
    "\u2028": "",
    "\u2029": "",
}
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None}


def parse(text: str) -> Value:
    """Parse a whole JSON5 text, or raise SyntaxProblem."""
    reader = _Reader(text)
    value = reader.value("", depth=0)
    reader.skip()
    if reader.at < len(text):
        raise SyntaxProblem(f"unexpected {reader.seen()} after the end of the value", reader.at)
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> str:
        """Skip white space and comments; return the next character, or an empty string at the end."""
        match = SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        if self.text.startswith("/*", self.at):
            raise SyntaxProblem("unclosed comment", self.at)
        return self.text[self.at : self.at + 1]

    def seen(self) -> str:
        char = self.text[self.at : self.at + 1]
        return repr(char) if char else "end of the text"

    def value(self, path: str, *, depth: int) -> Value:
        char = self.skip()
        start = self.at
        if depth > MAX_DEPTH:
            raise SyntaxProblem(f"nested deeper than {MAX_DEPTH} levels", start)
        if char == "{":
            return self.object(path, depth=depth)
        if char == "[":
            return self.array(path, depth=depth)
        try:
            scalar = self.string() if char and char in "\"'" else self.word()
        except SyntaxProblem as problem:
            raise SyntaxProblem(str(problem), problem.offset, path) from None
        return Value(path=path, start=start, end=self.at, scalar=scalar)

    def object(self, path: str, *, depth: int) -> Object:
        start, members, keys = self.at, [], set()
        self.at += 1
        while (char := self.skip()) != "}":
            key_start = self.at
            key = self.string() if char and char in "\"'" else self.name()
            if key in keys:
                raise SyntaxProblem(f"duplicate key {key!r}; keep one", key_start, join(path, key))
            keys.add(key)
            if self.skip() != ":":
                raise SyntaxProblem(f"expected ':' after the key {key!r}, found {self.seen()}", self.at)
            self.at += 1
            members.append(Member(key=key, start=key_start, value=self.value(join(path, key), depth=depth + 1)))
            self.separator("}")
        self.at += 1
        return Object(path=path, start=start, end=self.at, members=tuple(members))

    def array(self, path: str, *, depth: int) -> Array:
        start, items = self.at, list[Value]()
        self.at += 1
        while self.skip() != "]":
            items.append(self.value(f"{path}[{len(items)}]", depth=depth + 1))
            self.separator("]")
        self.at += 1
        return Array(path=path, start=start, end=self.at, items=tuple(items))

    def separator(self, closing: str) -> None:
        char = self.skip()
        if char == ",":
            self.at += 1
        elif char != closing:
            raise SyntaxProblem(f"expected ',' or {closing!r}, found {self.seen()}", self.at)

    def name(self) -> str:
        match = _NAME.match(self.text, self.at)
        name = _unescaped(match.group()) if match else ""
        if not match or not _is_name(name):
            raise SyntaxProblem(f"expected a key, found {self.seen()}", self.at)
        self.at = match.end()
        return name

    def word(self) -> Scalar:
        start = self.at
        match = _NUMBER.match(self.text, start)
        if match:
            self.at = match.end()
            if not _NAME.match(self.text, self.at) and self.text[self.at : self.at + 1] not in tuple("0123456789"):
                return _number(match.group(), start)
            self.at = start
        name = _NAME.match(self.text, start)
        if name and name.group() in _WORDS:
            self.at = name.end()
            return _WORDS[name.group()]
        if name:
            raise SyntaxProblem(f"expected a value, found {name.group()[:40]}; a string needs quotes", start)
        raise SyntaxProblem(f"expected a value, found {self.seen()}", start)

    def string(self) -> str:
        start = self.at
        quote = self.text[start]
        self.at += 1
        parts = []
        while True:
            match = _PLAIN[quote].match(self.text, self.at)
            if match:
                parts.append(match.group())
                self.at = match.end()
            char = self.text[self.at : self.at + 1]
            if char == quote:
                self.at += 1
                return _joined(parts, start)
            if char != "\\":
                raise SyntaxProblem("unclosed string; it must end on its line", start)
            parts.append(self.escape())

    def escape(self) -> str:
        start = self.at
        char = self.text[start + 1 : start + 2]
        self.at += 2
        if char == "\r":
            self.at += self.text.startswith("\n", self.at)
            return ""
        if char in ("x", "u"):
            width = 2 if char == "x" else 4
            digits = self.text[self.at : self.at + width]
            if not re.fullmatch(rf"[0-9a-fA-F]{{{width}}}", digits):
                raise SyntaxProblem(f"\\{char} needs {width} hexadecimal digits", start)
            self.at += width
            return chr(int(digits, 16))
        if char == "0" and self.text[self.at : self.at + 1] in tuple("0123456789"):
            raise SyntaxProblem("JSON5 has no octal escapes", start)
        if not char or char in "123456789":
            raise SyntaxProblem("not a JSON5 escape", start)
        return _ESCAPES.get(char, char)


def _joined(parts: list[str], offset: int) -> str:
    """Join escaped surrogate pairs into one character; half of a pair is refused: no file name or key has one."""
    text = "".join(parts)
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise SyntaxProblem("this string contains half of a surrogate pair", offset) from None


def _unescaped(name: str) -> str:
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), name)


def _is_name(name: str) -> bool:
    """Return whether this is an ECMAScript identifier: Python's kind, plus `$`, and the two joiners except in front."""
    return not name.startswith(("\u200c", "\u200d")) and re.sub("[$\u200c\u200d]", "_", name).isidentifier()


def _number(text: str, offset: int) -> int | float:
    digits = text.lstrip("+-")
    if digits in ("Infinity", "NaN"):
        raise SyntaxProblem(f"{digits} is not a number", offset)
    if len(digits) > 40:  # noqa: PLR2004  no setting needs more; int() of a huge literal is quadratic
        raise SyntaxProblem("a number with more than 40 digits", offset)
    if digits[:2] in ("0x", "0X"):
        size = int(digits, 16)
        return -size if text.startswith("-") else size
    value = int(text) if digits.isdigit() else float(text)
    if value in (float("inf"), float("-inf")):
        raise SyntaxProblem("a number too large to hold", offset)
    return value
