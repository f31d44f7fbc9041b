"""The `*** Begin Patch` format: parse it into operations, and apply an operation's hunks to bytes. Touches no file."""

from __future__ import annotations

from ..core.arguments import invalid
from ..core.failure import ToolError
from .text import ending_of, split_bom, split_lines, unify, usual_ending

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
_SHOWN_LINES = 12


class Hunk:
    """One change: the lines to find below the `@@` anchors, each kept (` `), dropped (`-`) or added (`+`)."""

    __slots__ = ("anchors", "at_end", "lines")

    def __init__(self, anchors: list[str]) -> None:
        self.anchors = anchors
        self.lines: list[tuple[str, str]] = []
        self.at_end = False

    def __str__(self) -> str:
        lines = [f"@@ {anchor}" for anchor in self.anchors] + [sign + line for sign, line in self.lines]
        if len(lines) > _SHOWN_LINES:
            lines[_SHOWN_LINES:] = [f"… {len(lines) - _SHOWN_LINES} more lines"]
        return "\n".join(line[:200] for line in lines)


class Operation:
    """What a patch does to one file. `added` is the content of a new one."""

    __slots__ = ("action", "added", "hunks", "move_to", "path")

    def __init__(self, action: str, path: str) -> None:
        self.action = action
        self.path = path
        self.move_to: str | None = None
        self.added: list[str] = []
        self.hunks: list[Hunk] = []


def parse(patch: str) -> list[Operation]:
    """Return the operations of a patch in order; an error names the wrong line."""
    lines = patch.replace("\r\n", "\n").strip().split("\n")
    if lines[0].rstrip() != _BEGIN:
        raise invalid(f"line 1 of the patch must read {_BEGIN!r}, not {lines[0]!r:.80}")
    lines[-1] = lines[-1].strip()
    if lines[-1] != _END:
        raise invalid(f"the last line of the patch must read {_END!r}, not {lines[-1]!r:.80}")
    operations: list[Operation] = []
    at = 1
    while at < len(lines) - 1:
        line = lines[at].strip()
        heads = [(_ADD, "add"), (_DELETE, "delete"), (_UPDATE, "update")]
        found = [(action, line[len(head) :].strip()) for head, action in heads if line.startswith(head)]
        if not line:
            at += 1
            continue
        if not found or not found[0][1]:
            wanted = ", ".join(repr(head + "path") for head, _ in heads)
            raise invalid(f"line {at + 1} of the patch is {line!r:.80}; expected one of {wanted}, or {_END!r}")
        operation = Operation(*found[0])
        operations.append(operation)
        at += 1
        if operation.action == "add":
            at = _parse_added(lines, at, operation)
        elif operation.action == "update":
            at = _parse_update(lines, at, operation)
    if not operations:
        raise invalid("the patch names no file")
    return operations


def _parse_added(lines: list[str], at: int, operation: Operation) -> int:
    while lines[at].startswith("+"):
        operation.added.append(lines[at][1:])
        at += 1
    return at


def _parse_update(lines: list[str], at: int, operation: Operation) -> int:
    if lines[at].strip().startswith(_MOVE.strip()):
        operation.move_to = lines[at].strip()[len(_MOVE.strip()) :].strip()
        if not operation.move_to:
            raise invalid(f"line {at + 1} of the patch moves to no path")
        at += 1
    while not _ends_operation(lines[at]):
        start = at
        anchors = []
        while lines[at].startswith("@@"):
            anchor = lines[at][2:]
            anchors += [anchor.removeprefix(" ")] if anchor.strip() else []
            at += 1
        hunk = Hunk(anchors)
        at = _parse_lines(lines, at, hunk)
        if hunk.lines:
            operation.hunks.append(hunk)
        elif at > start and any(lines[start:at]):
            raise invalid(f"line {start + 1} of the patch begins a hunk that changes nothing")
    if not operation.hunks and operation.move_to is None:
        raise invalid(f"the update of {operation.path} changes nothing: it has no hunk and no {_MOVE.strip()!r}")
    return at


def _parse_lines(lines: list[str], at: int, hunk: Hunk) -> int:
    blank = 0
    while not _ends_hunk(lines[at]):
        line = lines[at]
        # With a blank before it, it is a kept line with that text, unless nothing of the hunk follows.
        if line.strip() == _END_OF_FILE and (line[0] != " " or _ends_hunk(lines[at + 1])):
            hunk.at_end = True
            return at + 1
        if line and line[0] not in " -+":
            raise invalid(
                f"line {at + 1} of the patch is {line!r:.80}; a line of a hunk begins with ' ' (kept), '-' or '+'"
            )
        # An empty line is an empty kept line that lost its blank, unless nothing follows it: then it only separates.
        if line:
            hunk.lines += [(" ", "")] * blank + [(line[0], line[1:])]
            blank = 0
        elif hunk.lines:
            blank += 1
        at += 1
    return at


def _ends_hunk(line: str) -> bool:
    return line.startswith("@@") or _ends_operation(line)


def _ends_operation(line: str) -> bool:
    return line.startswith("*** ") and line.rstrip() != _END_OF_FILE


def content_of(operation: Operation) -> bytes:
    """Return the content of an added file."""
    return "".join(line + "\n" for line in operation.added).encode()


def apply_hunks(data: bytes, operation: Operation) -> bytes:
    """Return the file after the operation's hunks, applied in order; every other byte stays as it was.

    Except for the last line: a changed file ends with a line ending.
    """
    if not operation.hunks:
        return data
    mark, body = split_bom(data)
    lines = split_lines(body)
    usual = usual_ending(body)
    if lines and not ending_of(lines[-1]):
        lines[-1] += usual
    finder = _Finder(body, len(lines))
    result: list[bytes] = []
    done = 0
    for number, hunk in enumerate(operation.hunks, 1):
        start = finder.find(done, hunk)
        if start is None:
            raise ToolError(
                "no_match",
                f"hunk {number} of {operation.path} does not fit below line {done}; only trailing white space may"
                f" differ, and hunks must be in the file's order:\n{hunk}",
            )
        result += lines[done:start]
        done = start
        for sign, text in hunk.lines:
            if sign == "+":
                # In a file of mixed line endings a new line ends as its neighbour does.
                neighbour = lines[done - 1 : done] or lines[done : done + 1]
                result.append(text.encode() + (ending_of(neighbour[0]) if neighbour else usual))
                continue
            if sign == " ":
                result.append(lines[done])
            done += 1
    result += lines[done:]
    return mark + b"".join(result)


class _Finder:
    """Finds blocks of lines, each search from where the last one ended or below, in time proportional to the file."""

    def __init__(self, body: bytes, count: int) -> None:
        self._count = count
        lines = unify(body).split(b"\n")[:count]
        self._exact = _Joined(lines)
        self._stripped = _Joined([line.rstrip() for line in lines])

    def find(self, start: int, hunk: Hunk) -> int | None:
        """Return the line at which the hunk applies, none before `start`."""
        for anchor in hunk.anchors:
            found = self._block([anchor.encode()], start)
            if found is None:
                return None
            start = found + 1
        block = [text.encode() for sign, text in hunk.lines if sign != "+"]
        if not block:
            return start if hunk.anchors and not hunk.at_end else self._count
        if not hunk.at_end:
            return self._block(block, start)
        last = self._count - len(block)
        return last if last >= start and self._block(block, last) == last else None

    def _block(self, block: list[bytes], start: int) -> int | None:
        """Return the first place of the block: an exact match if there is one, else ignoring trailing white space."""
        found = self._exact.find(block, start)
        return self._stripped.find([line.rstrip() for line in block], start) if found is None else found


class _Joined:
    """Lines as one text that begins and ends with a newline, so that searching for a block is a search for bytes."""

    def __init__(self, lines: list[bytes]) -> None:
        self._text = b"\n".join([b"", *lines, b""])
        self._line = self._at = 0

    def find(self, block: list[bytes], start: int) -> int | None:
        for _ in range(start - self._line):
            self._at = self._text.index(b"\n", self._at + 1)
        self._line = start
        at = self._text.find(b"\n".join([b"", *block, b""]), self._at)
        return None if at < 0 else start + self._text.count(b"\n", self._at, at)
