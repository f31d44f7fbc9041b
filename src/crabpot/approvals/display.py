r"""Display words so that nothing in them deceives the eye, and two different commands never look alike.

A shell would read the text as the very same words. Control, invisible and bidirectional characters, and look-alikes,
are escaped, as in `\u202e` within `$'…'`. What counts as a look-alike follows the idea of Unicode's UTS 39: a word in
one script is shown as it is; a mixture of scripts, or a word made of look-alikes alone, is escaped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crabpot.decide.commands import is_deceptive

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)
# Letters that look like Latin ones.
_LOOK_LATIN = frozenset(
    "авеһіјкӏмногорсԁԛѕтухѵԝАВЕІЈКМНОРСЅТУХҮѴԌԜαγικνορτυχϲϳωΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿոսօցհզյքձՕՍԼՏᎠᎡᎢᎤᎥᎩᎪᎫᎬᎳᎵᎷᎻᎽᎾᎿᏀᏂᏃᏎᏏᏒᏔᏚᏞᏟᏢᏦᏧᏴ"
)


def shown(words: Iterable[str]) -> str:
    """Return words as one line of shell text."""
    return " ".join(_quoted(word, *_deceptive_in(word)) for word in words)


def as_bytes(words: Iterable[str]) -> str:
    """Return words as one line of shell text in printable ASCII, with every other byte escaped."""
    return " ".join(_word_bytes(word) for word in words)


def line(text: str) -> str:
    """Return a text that is not a command (a session, sender or path) on one line, deceptive characters escaped."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return " ".join(_line_word(word) for word in text.split(" "))


def displayed(value: Any) -> Any:
    """Return data of any shape with every string in it made safe by `line`, for a page that displays it."""
    if isinstance(value, str):
        return line(value)
    if isinstance(value, Mapping):
        return {line(str(name)): displayed(item) for name, item in value.items()}
    return [displayed(item) for item in value] if isinstance(value, list | tuple) else value


def imitating(word: str) -> frozenset[str]:
    """Return the letters of a word that look like others, or turn the direction of what follows."""
    return frozenset(char for char in _deceptive_in(word)[0] if char.isalpha())


def _line_word(word: str) -> str:
    # On its own it imitates nothing, and marks where a push goes.
    if word == "→":
        return word
    special, _ = _deceptive_in(word)
    return "".join(_escape(char) if char in special or char == "\\" else char for char in word)


def _quoted(word: str, special: frozenset[str], marked: bool) -> str:  # noqa: FBT001  two halves of one finding
    if _PLAIN.fullmatch(word):
        return word
    if not marked:
        return "'" + word.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(_escape(char) if char in special or char in "\\'" else char for char in word) + "'"


def _word_bytes(word: str) -> str:
    raw = word.encode("utf-8", "surrogateescape" if _has_raw_bytes(word) else "surrogatepass")
    if raw.isascii() and raw.decode("ascii").isprintable():
        return _quoted(word, frozenset(), False)
    return "$'" + "".join(chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\x{b:02x}" for b in raw) + "'"  # noqa: PLR2004  printable ASCII


def _has_raw_bytes(word: str) -> bool:
    return any("\udc80" <= char <= "\udcff" for char in word)


def _escape(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"  # noqa: PLR2004  \u takes four digits


def _deceptive_in(word: str) -> tuple[frozenset[str], bool]:
    if word.isascii() and word.isprintable():
        return frozenset(), False
    special = {char for char in word if not char.isascii() and not _is_honest(char)}
    special |= {char for char in word if is_deceptive(char)}
    letters = {char for char in word if char.isalpha() and char not in special}
    foreign = {char for char in letters if _script(char) != "LATIN"}
    mixed = len({_script(char) for char in letters}) > 1
    if foreign and (mixed or foreign <= _LOOK_LATIN):
        special |= foreign
    return frozenset(special), bool(special)


@lru_cache(maxsize=4096)
def _is_honest(char: str) -> bool:
    """Return whether this is a letter that imitates no other; marks, symbols, digits and right-to-left text are not."""
    if is_deceptive(char) or unicodedata.category(char)[0] != "L":
        return False
    if unicodedata.bidirectional(char) != "L" or unicodedata.normalize("NFKC", char) != char:
        return False
    # A Latin letter is honest if it is an ASCII letter with a mark: the others imitate ASCII letters.
    latin = unicodedata.name(char, "").startswith("LATIN")
    return not latin or unicodedata.normalize("NFD", char)[0].isascii() or char in "ßæøåþðœÆØÅÞÐŒłŁđĐ"


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    """Return a letter's script by its Unicode name; scripts that are written together count as one."""
    name = unicodedata.name(char, "?").split()[0]
    return "EAST-ASIAN" if name in ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO", "HANGUL") else name
