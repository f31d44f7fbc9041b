"""Find the lines of a file that match a pattern, in constant memory."""

from __future__ import annotations

import posix

from ..core.arguments import invalid
from ..files.text import unify
from . import prefilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern
    from typing import Iterator

_BINARY_PROBE = 8 << 10
_CHUNK = 1 << 20
# Only this much of a longer line is searched.
_LONGEST_LINE = 1 << 20


class Hit:
    """A line that matches, and those around it."""

    __slots__ = ("after", "before", "number", "text")

    def __init__(self, number: int, text: str, before: list[str]) -> None:
        self.number = number
        self.text = text
        self.before = before
        self.after: list[str] = []


class Matcher:
    """A pattern of Python's `re`, applied to lines without their endings; a NUL byte splits a line in two for it."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        self._regex = _compile(pattern, ignore_case=ignore_case)
        self._literal, self.widened = prefilter.derive(pattern, self._regex.flags)

    def hits(self, fd: int, context: int) -> Iterator[Hit]:
        """Yield the matching lines of an open file in order; none if it is binary."""
        return self._hits_in_context(_blocks(fd), context) if context else self._hits_alone(_blocks(fd))

    def _hits_alone(self, blocks: Iterator[bytes]) -> Iterator[Hit]:
        number = 1
        for block in blocks:
            if self._literal in block:
                search = self._search_parts if b"\0" in block else self._regex.search
                for at, line in enumerate(_decode(block), number):
                    if search(line):
                        yield Hit(at, line, [])
            number += block.count(b"\n") + 1

    def _hits_in_context(self, blocks: Iterator[bytes], context: int) -> Iterator[Hit]:
        number = 0
        before: list[str] = []
        waiting: list[Hit] = []
        for block in blocks:
            if not waiting and self._literal not in block:
                number += block.count(b"\n") + 1
                before = (before + [_decode(line)[0] for line in block.rsplit(b"\n", context)[-context:]])[-context:]
                continue
            search = self._search_parts if b"\0" in block else self._regex.search
            for line in _decode(block):
                number += 1
                for hit in waiting:
                    hit.after.append(line)
                while waiting and len(waiting[0].after) == context:
                    yield waiting.pop(0)
                if search(line):
                    waiting.append(Hit(number, line, before))
                before = [*before, line][-context:]
        yield from waiting

    def _search_parts(self, line: str) -> bool:
        return any(self._regex.search(part) for part in line.split("\0"))


def _decode(block: bytes) -> list[str]:
    return block.decode("utf-8", "surrogateescape").split("\n")


def _compile(pattern: str, *, ignore_case: bool) -> Pattern[str]:
    import re  # noqa: PLC0415  # only a search needs them
    import warnings  # noqa: PLC0415

    try:
        with warnings.catch_warnings():
            # What Python only warns about means something else to ripgrep's users, as [[:alpha:]] does.
            warnings.simplefilter("error")
            return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise invalid(
            f"pattern is not a regular expression of Python's re: {reason}; escape what is meant literally"
        ) from None


def _blocks(fd: int) -> Iterator[bytes]:
    """Yield the file in pieces of whole lines, without the last line's ending."""
    size = min(_CHUNK, posix.fstat(fd).st_size + 1)
    chunk = posix.read(fd, size)
    if b"\0" in chunk[:_BINARY_PROBE]:
        return
    tail = b""
    cut = False
    while chunk:
        if cut:
            _, newline, chunk = chunk.partition(b"\n")
            if newline:
                yield tail
                tail, cut = b"", False
        if not cut:
            head, newline, rest = chunk.rpartition(b"\n")
            if newline:
                yield unify(tail + head + newline)[:-1]
                tail = rest
            else:
                tail += rest
            if len(tail) > _LONGEST_LINE:
                tail, cut = tail[:_LONGEST_LINE], True
        chunk = posix.read(fd, size)
    if tail:
        yield tail
