"""Find the lines of a file that match a pattern, in constant memory."""

from __future__ import annotations

import posix

from ..core.arguments import invalid
from ..files.text import unify
from . import prefilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern
    from typing import Callable, Iterator

_BINARY_PROBE = 8 << 10
_FIRST, _CHUNK = 64 << 10, 1 << 20
# Only this much of a longer line is searched.
_LONGEST_LINE = 1 << 20
_SPECIAL = frozenset("\\.^$*+?{}[]()|")


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
        self.widened: str | None
        self._search: Callable[[str], object]
        # Whether it means itself, so that no line that does not hold it is looked at.
        self.plain = _is_plain(pattern) and not ignore_case
        if self.plain:
            # To everybody: compiling it would take longer than searching a small file.
            self._search = lambda line: pattern in line
            self._literal, self.widened = pattern.encode(), pattern
        else:
            regex = _compile(pattern, ignore_case=ignore_case)
            self._search = regex.search
            self._literal, self.widened = prefilter.derive(pattern, regex.flags)
            if regex.search(""):
                # Hardly a file could be ruled out, and to ripgrep nothing comes after a last NUL.
                self.widened = None

    def begin(self, fd: int) -> bytes | None:
        """Return how an open file begins; None if that is all of it, as of most files, and no line can match."""
        chunk = posix.read(fd, _FIRST)
        if self._literal in chunk:
            return chunk
        # Only this tells that it ends here: some file systems hand out less than they could.
        more = posix.read(fd, _FIRST)
        return chunk + more if more else None

    def hits(self, fd: int, chunk: bytes, context: int) -> Iterator[Hit]:
        """Return the matching lines of an open regular file, of which a chunk was read; none if it is binary."""
        while self._literal not in chunk and len(chunk) < _CHUNK:
            more = posix.read(fd, _CHUNK)
            if not more:
                return iter(())
            chunk += more
        blocks = _blocks(fd, chunk)
        return self._hits_in_context(blocks, context) if context else self._hits_alone(blocks)

    def _hits_alone(self, blocks: Iterator[bytes]) -> Iterator[Hit]:
        number = 1
        for block in blocks:
            search = self._search_parts if b"\0" in block else self._search
            for at, line in _lines_with(self._literal, block) if self._literal else enumerate(_decode(block)):
                if search(line):
                    yield Hit(number + at, line, [])
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
            search = self._search_parts if b"\0" in block else self._search
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
        return any(self._search(part) for part in line.split("\0"))


def _is_plain(pattern: str) -> bool:
    return pattern.isascii() and pattern.isprintable() and pattern != "" and not _SPECIAL.intersection(pattern)


def _lines_with(literal: bytes, block: bytes) -> Iterator[tuple[int, str]]:
    """Yield the lines that hold a text, each with the number of those before it."""
    number = begin = 0
    at = block.find(literal)
    while at >= 0:
        number += block.count(b"\n", begin, at)
        begin = block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        line = block[begin:] if end < 0 else block[begin:end]
        yield number, line.decode("utf-8", "surrogateescape")
        at = -1 if end < 0 else block.find(literal, end + 1)


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


def _blocks(fd: int, chunk: bytes) -> Iterator[bytes]:
    """Yield the file, of which one chunk was read, in pieces of whole lines, without the last line's ending."""
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
        chunk = posix.read(fd, _CHUNK)
    if tail:
        yield tail
