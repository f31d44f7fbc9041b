"""Walk the files below a folder in the order of their paths, without those that .gitignore rules exclude.

Links are never followed: every folder and file is opened from the folder that the search began in, link-free.
"""

from __future__ import annotations

import posix
from _stat import S_ISREG

from ..files.beneath import Anchor
from ..files.context import LOCALE_IS_UTF8, READ_ONLY, entry_text, to_bytes, to_text
from .ignore import SIZE_LIMIT, IgnoreRules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

    from ..files.context import Context, Location

    # Each rule file, the prefix that makes a path relative to it, and how much of the path is dropped.
    Chain = tuple[tuple[IgnoreRules, str, int], ...]
    # From a folder's state, an entry's name, whether it is a folder and whether a `!` rule brought it back:
    # the entry's state, or None to leave it out.
    Step = Callable[[Any, str, bool, bool], Any]
    # From a folder's state: a test of which names of files the step would let pass, whatever the rules say.
    Names = Callable[[Any], Callable[[str], object]]

_LIST = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC


class Found:
    """An entry: its path from where the search began, the rules above it, and its time if that was asked for."""

    __slots__ = ("chain", "folder", "modified_ns", "path", "regular", "state")

    def __init__(self, path: bytes, state: Any, chain: Chain, *, folder: bool, regular: bool = False) -> None:
        self.path = path
        self.state = state
        self.chain = chain
        self.folder = folder
        self.regular = regular
        self.modified_ns = 0


class _TooManyError(Exception):
    """A folder has more names than a search wants to look at."""


class Walk:
    """What a search sees below one folder; `step` has the last word on every entry that no rule excludes."""

    def __init__(self, ctx: Context, place: Location, folder: int, step: Step, names: Names | None = None) -> None:
        self._opener = ctx.opener
        self._place = place
        self._base = Anchor(place.absolute, folder, confined=True)
        # Returns a descriptor of a file that was found, by its path: of what is there by now, but never of a link.
        self.open = ctx.opener.below(self._base, READ_ONLY)
        self._step = step
        self._names = names
        self._left: int | None = None
        self._chains: dict[bytes, Chain | None] = {b"": self._extend(self._inherited(), b"")}

    def top(self, start: Any) -> Found:
        """Return the folder that is searched."""
        return Found(b"", start, self._chains[b""] or (), folder=True)

    def entries(self, start: Any) -> Iterator[Found]:
        """Yield everything in the byte order of the paths, a folder before what is in it."""
        open_folders = [self._in_order(self.top(start))]
        while open_folders:
            for found in open_folders[-1]:
                yield found
                if found.folder:
                    open_folders.append(self._in_order(found))
                    break
            else:
                open_folders.pop()

    def all_of(self, start: Any, most: int) -> list[Found] | None:
        """Return what entries() yields, or None if that is chosen from more names than so many."""
        self._left = most
        try:
            return list(self.entries(start))
        except _TooManyError:
            return None
        finally:
            self._left = None

    def _counted(self, entries: Iterator[posix.DirEntry[str]], left: int) -> Iterator[posix.DirEntry[str]]:
        for entry in entries:
            left -= 1
            if left < 0:
                raise _TooManyError
            self._left = left
            yield entry

    def _in_order(self, folder: Found) -> Iterator[Found]:
        return iter(sorted(self.inside(folder), key=_by_path))

    def holds(self, path: bytes, start: Any) -> bool:
        """Return whether entries() would come to a file of this path."""
        folder, _, name = path.rpartition(b"/")
        chain = self._chain_of(folder, start)
        return chain is not None and self._judge(chain, folder, to_text(name), start, is_folder=False) is not None

    def _chain_of(self, folder: bytes, start: Any) -> Chain | None:
        # Upwards to what is known, then down again: a loop, since a tree may be deeper than Python's recursion limit.
        unknown = []
        while folder not in self._chains:
            unknown.append(folder)
            folder = folder.rpartition(b"/")[0]
        chain = self._chains[folder]
        for below in reversed(unknown):
            above, _, name = below.rpartition(b"/")
            if chain is not None:
                admitted = self._judge(chain, above, to_text(name), start, is_folder=True) is not None
                chain = self._extend(chain, below) if admitted else None
            self._chains[below] = chain
        return chain

    def inside(self, above: Found, *, folder_times: bool = False, file_times: bool = False) -> list[Found]:
        """Return what is in a folder, in no order; when it was changed only where that is asked for."""
        path, state = above.path, above.state
        try:
            fd = self._opener.open(self._base, path, _LIST, follow=False)
        except OSError:
            return []  # Gone, swapped for a link, or not readable.
        chain = self._extend(above.chain, path) if path else above.chain
        wanted = self._names(state) if self._names else None
        listed: list[Found] = []
        try:
            with posix.scandir(fd) as entries:
                for entry in entries if self._left is None else self._counted(entries, self._left):
                    text = entry.name if LOCALE_IS_UTF8 else entry_text(entry.name)
                    folder = entry.is_dir(follow_symlinks=False)
                    # Most names have no place in the answer, whatever the rules say: those cost one look.
                    if not (folder or wanted is None or wanted(text)):
                        continue
                    verdict = self._judge(chain, path, text, state, is_folder=folder)
                    if verdict is None:
                        continue
                    regular = entry.is_file(follow_symlinks=False)
                    found = Found(_join(path, to_bytes(text)), verdict, chain, folder=folder, regular=regular)
                    if folder_times if folder else file_times:
                        found.modified_ns = _modified_ns(entry)
                    listed.append(found)
        except OSError:
            pass  # The folder was removed while it was read; what was listed so far counts.
        finally:
            posix.close(fd)
        return listed

    def _judge(self, chain: Chain, folder: bytes, name: str, state: Any, *, is_folder: bool) -> Any:
        if name == ".git":
            return None
        ignored = _is_ignored(chain, folder, to_bytes(name), is_folder=is_folder) if chain else None
        return None if ignored else self._step(state, name, is_folder, ignored is False)

    def _extend(self, chain: Chain, folder: bytes) -> Chain:
        rules = self._read_rules(_join(self._place.relative, folder))
        return chain if rules is None else (*chain, (rules, "", len(folder) + 1 if folder else 0))

    def _inherited(self) -> Chain:
        """Return the rules of the folders above the one that is searched, up to its root."""
        if not self._place.anchor.confined:
            return ()
        chain: list[tuple[IgnoreRules, str, int]] = []
        parts = self._place.relative.split(b"/") if self._place.relative else []
        for depth in range(len(parts)):
            rules = self._read_rules(b"/".join(parts[:depth]))
            if rules is not None:
                chain.append((rules, b"/".join([*parts[depth:], b""]).decode("latin-1"), 0))
        return tuple(chain)

    def _read_rules(self, folder: bytes) -> IgnoreRules | None:
        """Return the rules in a folder of the root; here a link is followed, as long as it stays inside."""
        try:
            fd = self._opener.open(self._place.anchor, _join(folder, b".gitignore"), READ_ONLY)
        except OSError:
            return None
        try:
            return IgnoreRules(posix.read(fd, SIZE_LIMIT)) if S_ISREG(posix.fstat(fd).st_mode) else None
        except OSError:
            return None
        finally:
            posix.close(fd)


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder and name else folder or name


def _is_ignored(chain: Chain, folder: bytes, name: bytes, *, is_folder: bool) -> bool | None:
    path, last = _join(folder, name).decode("latin-1"), name.decode("latin-1")
    for rules, lead, drop in reversed(chain):
        ignored = rules.verdict(lead + path[drop:], last, folder=is_folder)
        if ignored is not None:
            return ignored
    return None


def _modified_ns(entry: posix.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0  # It was removed since it was listed.


def _by_path(found: Found) -> bytes:
    # With the slash a folder sorts where the paths inside it belong.
    return found.path + b"/" if found.folder else found.path
