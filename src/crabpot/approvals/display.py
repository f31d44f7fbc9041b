r"""Show words so that nothing in them deceives the eye, and two different commands never look alike.

The text is what a shell would read as the very same words. Control, invisible and bidirectional characters, and those
that look like others, stand as `\u202e` within `$'…'`. Which characters look alike follows the idea of Unicode's
UTS 39: a word of one script is read as its readers read it; a mixture, or a word made of look-alikes alone, is not.
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
# Letters that a reader of Latin takes for Latin ones.
_LOOK_LATIN = frozenset(
    "авеһіјкӏмногорсԁԛѕтухѵԝАВЕІЈКМНОРСЅТУХҮѴԌԜαγικνορτυχϲϳωΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿոսօցհզյքձՕՍԼՏᎠᎡᎢᎤᎥᎩᎪᎫᎬᎳᎵᎷᎻᎽᎾᎿᏀᏂᏃᏎᏏᏒᏔᏚᏞᏟᏢᏦᏧᏴ"
)


def shown(words: Iterable[str]) -> str:
    """Give words as one line of shell text."""
    return " ".join(_quoted(word, *_deceptive_in(word)) for word in words)


def as_bytes(words: Iterable[str]) -> str:
    """Give words as one line of shell text in printable ASCII, every other byte by its number."""
    return " ".join(_word_bytes(word) for word in words)


def line(text: str) -> str:
    """Give a text that is no command (a session, a sender, a path) on one line, its deceptive characters by number."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return " ".join(_line_word(word) for word in text.split(" "))


def displayed(value: Any) -> Any:
    """Give data of any shape with every text in it as `line` shows it, for a page that shows what it is given."""
    if isinstance(value, str):
        return line(value)
    if isinstance(value, Mapping):
        return {line(str(name)): displayed(item) for name, item in value.items()}
    return [displayed(item) for item in value] if isinstance(value, list | tuple) else value


def _line_word(word: str) -> str:
    # On its own it imitates nothing, and says where a push goes.
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
    """Tell a letter that stands for itself; marks, symbols, digits and what reads from the right do not."""
    if is_deceptive(char) or unicodedata.category(char)[0] != "L":
        return False
    if unicodedata.bidirectional(char) != "L" or unicodedata.normalize("NFKC", char) != char:
        return False
    # A Latin letter is honest if it is an ASCII one with a mark: the others imitate them.
    latin = unicodedata.name(char, "").startswith("LATIN")
    return not latin or unicodedata.normalize("NFD", char)[0].isascii() or char in "ßæøåþðœÆØÅÞÐŒłŁđĐ"


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    """Name a letter's script, as far as its Unicode name tells; what is written together counts as one."""
    name = unicodedata.name(char, "?").split()[0]
    return "EAST-ASIAN" if name in ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO", "HANGUL") else name
