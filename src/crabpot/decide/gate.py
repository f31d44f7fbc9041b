"""Decide which changed files wait at the gate: those that the host would execute without being asked.

What runs only once a person runs it is marked. Both come from one list (`host_executed`).
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from crabpot.decide.host_executed import ASKED, UNASKED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crabpot.decide.host_executed import Rule

LEADS_OUT = "a link that leads out of the folder"
THROUGH_A_LINK = "a link through another link, which may lead anywhere"
INTO_GIT = "a link into a repository's own files"
BECAME_EXECUTABLE = "a file that became executable"
_DRIVERS = "git runs the filter, diff or merge driver that it names"
_NAMES_A_DRIVER = re.compile(
    rb"(?:^|[\s])(?:filter|diff|merge|textconv|working-tree-encoding)\s*=|\[attr\]", re.IGNORECASE
)


class _Index:
    """Rules by the first part of their patterns, so that a path is compared with few of them."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._plain: dict[str, list[tuple[tuple[re.Pattern[str], ...], str]]] = {}
        self._wild: list[tuple[tuple[re.Pattern[str], ...], str]] = []
        for rule in rules:
            for pattern in rule.patterns:
                parts = pattern.casefold().split("/")
                row = (tuple(_compiled(part) for part in parts), rule.reason)
                if "*" in parts[0] or "?" in parts[0]:
                    self._wild.append(row)
                else:
                    self._plain.setdefault(parts[0], []).append(row)
        # One look for all of them: few parts of a path match any.
        self._any_wild = re.compile("|".join(patterns[0].pattern for patterns, _ in self._wild) or r"(?!)", re.DOTALL)

    def reason(self, parts: Sequence[str]) -> str | None:
        """Return the reason of the first rule that a path matches, or None."""
        for at, part in enumerate(parts):
            wild = self._wild if self._any_wild.fullmatch(part) else []
            for patterns, reason in [*self._plain.get(part, []), *wild]:
                beneath = parts[at : at + len(patterns)]
                if len(beneath) == len(patterns) and all(map(re.Pattern.fullmatch, patterns, beneath)):
                    return reason
        return None


def _compiled(part: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in part), re.DOTALL)


@cache
def _indexes() -> tuple[_Index, _Index]:
    return _Index(UNASKED), _Index(ASKED)


def gate(path: str) -> str | None:
    """Return why a path waits for its own word, or None."""
    return _indexes()[0].reason(folded(path))


def mark(path: str) -> str | None:
    """Return why a path is marked, or None."""
    return _indexes()[1].reason(folded(path))


def gate_of_attributes(path: str, content: bytes | None) -> str | None:
    """Return why a `.gitattributes` waits, or None: most only say which files are text. None of content: unreadable."""
    if folded(path)[-1:] not in ([".gitattributes"], ["gitattributes"]):
        return None
    return _DRIVERS if content is None or _NAMES_A_DRIVER.search(content) else None


def gate_of_link(path: str, target: str) -> str | None:
    """Return why a link waits, or None if it stays in the folder by its text alone.

    `..` after a name is taken for a way out: the name may be a link itself, and then `..` leads elsewhere.
    """
    parts = target.split("/")
    above = 0
    while above < len(parts) and parts[above] in ("..", ".", ""):
        above += 1
    rest = parts[above:]
    if target.startswith("/") or ".." in rest or parts[:above].count("..") > path.count("/"):
        return LEADS_OUT
    return INTO_GIT if is_git(target) else None


def is_git(path: str) -> bool:
    """Return whether a path is, or lies in, what git takes for a repository's own folder."""
    return ".git" in folded(path) or "git~1" in folded(path)


def folded(path: str) -> list[str]:
    """Return the parts of a path as file systems that ignore case and invisible characters compare them."""
    if path.isascii():
        return path.lower().split("/")
    shown = "".join(char for char in unicodedata.normalize("NFKC", path) if unicodedata.category(char) != "Cf")
    return shown.casefold().split("/")


def named() -> Iterator[str]:
    """Return the plain paths of both lists, to look for in a folder."""
    for rule in (*UNASKED, *ASKED):
        yield from (pattern for pattern in rule.patterns if "*" not in pattern and "?" not in pattern)
