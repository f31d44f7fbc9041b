"""Parse shell text as one simple command, or say why it is not one.

The parser knows POSIX quoting and nothing else. Whatever a shell would do beyond splitting words (chains, pipes,
expansions, redirections, comments, assignments) makes the text "not one simple command", and it stays inside.
"""

from __future__ import annotations

from crabpot.frozen import dataclass

# Unquoted, each of these means something to some shell. `~` also expands after `=` and `:`.
_OPERATORS = frozenset(";&|<>()")
_EXPANSIONS = frozenset("$`~*?[{")
_ESCAPED_IN_DOUBLE_QUOTES = frozenset('$`"\\')

_RESERVED = frozenset(
    "! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until while".split()
)

# Invisible characters, beyond those that Unicode itself calls unprintable.
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, range(0x180B, 0x1810)))
    + "".join(map(chr, range(0xFE00, 0xFE10)))
)
_INVISIBLE_TAGS = range(0xE0000, 0xE1000)


# Linux allows no longer argument to execve, and nobody reads that much before agreeing.
_LONGEST = 128 * 1024


class NotSimple(ValueError):
    """The text is not one simple command; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """The words that a shell would split the text into; `plain_name` if the first was written without quoting."""

    argv: tuple[str, ...]
    plain_name: bool


def parse(text: str) -> SimpleCommand:
    """Split one simple command into its words."""
    if len(text) > _LONGEST:
        raise NotSimple("it is too long for one command")
    for char in text:
        if is_deceptive(char):
            raise NotSimple(f"it holds a control, invisible or bidirectional character ({name_of(char)})")
    words = _Words(text).read()
    if not words:
        raise NotSimple("it is empty")
    first, quoted = words[0]
    if first in _RESERVED:
        raise NotSimple(f'"{first}" is a reserved word of the shell')
    if "=" in first:
        raise NotSimple("it begins with an assignment")
    return SimpleCommand(argv=tuple(word for word, _ in words), plain_name=not quoted)


def is_deceptive(char: str) -> bool:
    """Return whether a character is invisible, or changes how the text around it looks."""
    return not char.isprintable() or char in _INVISIBLE or ord(char) in _INVISIBLE_TAGS


def name_of(char: str) -> str:
    """Return a printable name of a character."""
    return f"U+{ord(char):04X}"


class _Words:
    """Splits the text in one pass; each word comes with whether any of it was quoted."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.words: list[tuple[str, bool]] = []
        self.word: list[str] | None = None
        self.quoted = False

    def read(self) -> list[tuple[str, bool]]:
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == " ":
                self.end_word()
            elif char == "'":
                self.single_quoted()
            elif char == '"':
                self.double_quoted()
            elif char == "\\":
                self.escaped()
            else:
                self.bare(char)
        self.end_word()
        return self.words

    def add(self, text: str, *, quoted: bool) -> None:
        if self.word is None:
            self.word = []
        self.word.append(text)
        self.quoted |= quoted

    def end_word(self) -> None:
        if self.word is not None:
            self.words.append(("".join(self.word), self.quoted))
        self.word, self.quoted = None, False

    def bare(self, char: str) -> None:
        if char in _OPERATORS:
            raise NotSimple(f'"{char}" is an operator of the shell')
        if char in _EXPANSIONS:
            raise NotSimple(f'the shell would expand "{char}"')
        if char == "#" and self.word is None:
            raise NotSimple('"#" begins a comment')
        self.add(char, quoted=False)

    def escaped(self) -> None:
        if self.at == len(self.text):
            raise NotSimple("it ends in a backslash")
        self.add(self.text[self.at], quoted=True)
        self.at += 1

    def single_quoted(self) -> None:
        end = self.text.find("'", self.at)
        if end < 0:
            raise NotSimple("a single quote is not closed")
        self.add(self.text[self.at : end], quoted=True)
        self.at = end + 1

    def double_quoted(self) -> None:
        self.add("", quoted=True)
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == '"':
                return
            if char in "$`":
                raise NotSimple(f'the shell would expand "{char}"')
            if char == "\\" and self.text[self.at : self.at + 1] in _ESCAPED_IN_DOUBLE_QUOTES:
                char = self.text[self.at]
                self.at += 1
            self.add(char, quoted=True)
        raise NotSimple("a double quote is not closed")
