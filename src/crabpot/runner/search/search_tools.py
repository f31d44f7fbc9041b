"""The tools grep and glob: their arguments, where they look, and their results."""

from __future__ import annotations

import posix
from _stat import S_ISDIR, S_ISREG

from ..core import arguments
from ..core.budget import Budget
from ..files.context import READ_ONLY, not_regular
from .globbing import Glob, path_filter
from .lines import Matcher
from .newest import Search
from .ripgrep import find_program, list_candidates
from .walk import Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator

    from ..files.context import Context, Location
    from .walk import Found

MAX_MATCHES = 1000
MAX_PATHS = 10_000
MAX_CONTEXT = 20
LINE_LIMIT = 2000

_GREP_OPTIONS = {
    "path": arguments.path,
    "glob": arguments.text,
    "context": arguments.whole(0, MAX_CONTEXT),
    "ignore_case": arguments.flag,
    "limit": arguments.whole(1, MAX_MATCHES),
}
# Among fewer names ripgrep, which shares them among all processors, saves less time than it takes to start.
_FEW_FOR_ONE = 2048
# The characters of a glob that means the same to ripgrep, for which `?` is one byte and not one character.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-*")


def grep(args: dict[str, Any], ctx: Context, *, ripgrep: bool = True, few: int | None = None) -> dict[str, Any]:
    """Return matching lines by path and number, from files that are neither ignored nor hidden nor binary.

    The pattern is Python's `re`. ripgrep, if there is one, only says which files can be skipped, and among `few` names
    it is not asked for a plain text; what matches is always decided here, on files opened link-free below the folder.
    A file that `path` itself names is searched whatever the rules say.
    """
    values = arguments.take("grep", args, {"pattern": arguments.text}, _GREP_OPTIONS)
    matcher = Matcher(values["pattern"], ignore_case=bool(values["ignore_case"]))
    accepts = path_filter(values["glob"])
    results = _Results(matcher, values["context"] or 0, values["limit"] or 100, ctx.show)
    place = ctx.locate(values["path"] or ".")
    fd = ctx.open(place, READ_ONLY)
    try:
        state = posix.fstat(fd)
        if S_ISREG(state.st_mode):
            results.search(fd, place)
        elif S_ISDIR(state.st_mode):
            walk = Walk(ctx, place, fd, _skip_hidden)
            paths = _likely(walk, fd, matcher, values["glob"], few) if ripgrep else _files(walk.entries(True))
            for path in paths:
                if accepts(path):
                    _search_file(walk, path, results, place)
                if results.truncated:
                    break
        else:
            raise not_regular(state, place)
    finally:
        posix.close(fd)
    return {"data": {"matches": results.matches, "truncated": results.truncated}}


def _skip_hidden(state: Any, name: str, _folder: bool, taken_back: bool) -> Any:  # noqa: FBT001
    # As in ripgrep, a `!` rule brings back even a hidden name.
    return state if taken_back or not name.startswith(".") else None


def _files(entries: Iterable[Found]) -> Iterator[bytes]:
    return (found.path for found in entries if found.regular)


def _likely(walk: Walk, fd: int, matcher: Matcher, glob: str | None, few: int | None) -> Iterator[bytes]:
    """Return the files in which a match may be, in the order of all: every file if ripgrep cannot tell, or need not."""
    program = find_program()
    if program is not None and matcher.widened is not None:
        if few is None:
            few = _FEW_FOR_ONE // len(posix.sched_getaffinity(0))
        found = walk.all_of(True, few) if matcher.plain else None
        if found is not None:
            return _files(found)
        name_glob = glob if glob is not None and _PLAIN.issuperset(glob) else None
        candidates = list_candidates(program, fd, matcher.widened, name_glob)
        if candidates is not None:
            return (path for path in sorted(candidates) if walk.holds(path, True))
    return _files(walk.entries(True))


def _search_file(walk: Walk, path: bytes, results: _Results, place: Location) -> None:
    try:
        fd = walk.open(path)
    except OSError:
        return  # Gone, swapped for a link, or not readable.
    try:
        results.search(fd, place, path)
    except OSError:
        return
    finally:
        posix.close(fd)


class _Results:
    """Collects the matches of one file after the other, up to the limit or what a frame can carry."""

    def __init__(self, matcher: Matcher, context: int, limit: int, show: Callable[[bytes], str]) -> None:
        self._matcher = matcher
        self._context = context
        self._limit = limit
        self._show = show
        self._budget = Budget()
        self.matches: list[dict[str, Any]] = []
        self.truncated = False

    def search(self, fd: int, place: Location, below: bytes = b"") -> None:
        begun = self._matcher.begin(fd)
        # What was a file when it was listed may be a pipe by now, which is not read to its end.
        if begun is None or not S_ISREG(posix.fstat(fd).st_mode):
            return
        absolute = _join(place, below) if below else place.absolute
        for hit in self._matcher.hits(fd, begun, self._context):
            path, text = self._show(absolute), _cut(hit.text)
            before, after = [_cut(line) for line in hit.before], [_cut(line) for line in hit.after]
            if len(self.matches) == self._limit or not self._budget.take(path, text, *before, *after):
                self.truncated = True
                return
            self.matches.append({"path": path, "line": hit.number, "text": text, "before": before, "after": after})


def _cut(line: str) -> str:
    line = line[:LINE_LIMIT]
    return line if line.isascii() else line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _join(place: Location, path: bytes) -> bytes:
    return place.absolute.rstrip(b"/") + b"/" + path


def glob(args: dict[str, Any], ctx: Context, *, processes: int | None = None) -> dict[str, Any]:
    """Return paths that match, newest first; files and links, or folders if the pattern ends with a slash."""
    options = {"path": arguments.path, "limit": arguments.whole(1, MAX_PATHS)}
    values = arguments.take("glob", args, {"pattern": arguments.text}, options)
    pattern = Glob(values["pattern"])
    limit = values["limit"] or 1000
    place = ctx.locate(values["path"] or ".")
    fd = ctx.open(place, posix.O_RDONLY | posix.O_DIRECTORY)
    try:
        newest = Search(Walk(ctx, place, fd, pattern.step, pattern.names), pattern, limit, processes).run()
    finally:
        posix.close(fd)
    truncated = newest.truncated
    budget = Budget()
    paths: list[str] = []
    for _, path in newest.paths:
        shown = ctx.show(_join(place, path))
        if not budget.take(shown):
            truncated = True
            break
        paths.append(shown)
    return {"data": {"paths": paths, "truncated": truncated}}
