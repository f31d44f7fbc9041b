"""Line endings and byte order marks: what an edit of a text must preserve."""

from __future__ import annotations

BOM = b"\xef\xbb\xbf"


def split_bom(data: bytes) -> tuple[bytes, bytes]:
    """Return the byte order mark, if there is one, and the text after it."""
    return (BOM, data[3:]) if data.startswith(BOM) else (b"", data)


def unify(text: bytes) -> bytes:
    """Return the text with every line ending replaced by a newline alone."""
    return text.replace(b"\r\n", b"\n")


def usual_ending(text: bytes) -> bytes:
    """Return the ending that most lines have."""
    windows = text.count(b"\r\n")
    return b"\r\n" if windows * 2 > text.count(b"\n") else b"\n"


def split_lines(text: bytes) -> list[bytes]:
    """Return lines with their endings; only the last may have none. A carriage return alone ends no line."""
    *lines, rest = text.split(b"\n")
    lines = [line + b"\n" for line in lines]
    return [*lines, rest] if rest else lines


def ending_of(line: bytes) -> bytes:
    """Return what ends a line: nothing, for the last one of some files."""
    return b"\r\n" if line.endswith(b"\r\n") else line[-1:] if line.endswith(b"\n") else b""


class Occurrences:
    """The places where `old` occurs in a text, whatever the line endings of either."""

    def __init__(self, text: bytes, old: bytes) -> None:
        self._text = text
        self._unified = unify(text)
        self._old = unify(old)
        self.count = self._unified.count(self._old)
        first = self._unified.find(self._old)
        # "aa" occurs twice in "aaa", though only one of them can be replaced.
        if self.count == 1 and self._unified.find(self._old, first + 1) >= 0:
            self.count = 2

    def replaced(self, new: bytes) -> tuple[bytes, int]:
        """Return the text with each replaced, and how many; new lines end like the line that they come into."""
        returns = self._returns()
        pieces = []
        done = count = 0
        found = self._unified.find(self._old)
        while found >= 0:
            end = found + len(self._old)
            start, stop = self._position(found, returns), self._position(end, returns)
            pieces += [self._text[done:start], self._adapt(new, start)]
            done = stop
            count += 1
            found = self._unified.find(self._old, end)
        pieces.append(self._text[done:])
        return b"".join(pieces), count

    def _returns(self) -> list[int]:
        """Return where, in the unified text, the line endings are that have two bytes in the real one."""
        positions: list[int] = []
        if len(self._unified) == len(self._text):
            return positions
        at = self._text.find(b"\r\n")
        while at >= 0:
            positions.append(at - len(positions))
            at = self._text.find(b"\r\n", at + 2)
        return positions

    def _position(self, unified: int, returns: list[int]) -> int:
        if not returns:
            return unified
        from _bisect import bisect_left  # noqa: PLC0415

        return unified + bisect_left(returns, unified)

    def _adapt(self, new: bytes, start: int) -> bytes:
        newline = self._text.find(b"\n", start)
        if newline < 0:
            newline = self._text.rfind(b"\n", 0, start)
        if newline < 1 or not self._text.startswith(b"\r\n", newline - 1):
            return new
        return unify(new).replace(b"\n", b"\r\n")
