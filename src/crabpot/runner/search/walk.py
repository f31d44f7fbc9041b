"""Walk the files below a folder in the order of their paths, without those that .gitignore rules exclude.

Links are never followed: every folder and file is opened from the folder that the search began in, link-free.
"""

from __future__ import annotations

import posix
from _stat import S_ISREG

from ..files.beneath import Anchor
from ..files.context import READ_ONLY, entry_bytes, entry_text
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

_LIST = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC


class Found:
    """An entry: its path from where the search began, and when it was changed if that was asked for."""

    __slots__ = ("folder", "modified_ns", "path", "regular", "state")

    def __init__(self, path: bytes, state: Any, *, folder: bool, regular: bool, modified_ns: int) -> None:
        self.path = path
        self.state = state
        self.folder = folder
        self.regular = regular
        self.modified_ns = modified_ns


class Walk:
    """What a search sees below one folder; `step` has the last word on every entry that no rule excludes."""

    def __init__(self, ctx: Context, place: Location, folder: int, step: Step) -> None:
        self._opener = ctx.opener
        self._place = place
        self._base = Anchor(place.absolute, folder, confined=True)
        self._step = step
        self._chains: dict[bytes, Chain | None] = {b"": self._extend(self._inherited(), b"")}

    def open(self, path: bytes) -> tuple[int, int]:
        """Return a descriptor of a regular file that was found, and its size; OSError if it is no longer one."""
        fd = self._opener.open(self._base, path, READ_ONLY, follow=False)
        state = posix.fstat(fd)
        if not S_ISREG(state.st_mode):
            posix.close(fd)
            raise OSError(0, "not a regular file")
        return fd, state.st_size

    def entries(self, start: Any, *, stamped: bool = False) -> Iterator[Found]:
        """Yield everything in the byte order of the paths, a folder before what is in it."""
        open_folders = [self._list(b"", self._chains[b""] or (), start, stamped=stamped)]
        while open_folders:
            for found, chain in open_folders[-1]:
                yield found
                if found.folder:
                    open_folders.append(self._list(found.path, chain, found.state, stamped=stamped))
                    break
            else:
                open_folders.pop()

    def holds(self, path: bytes, start: Any) -> bool:
        """Return whether entries() would come to a file of this path."""
        folder, _, name = path.rpartition(b"/")
        chain = self._chain_of(folder, start)
        return chain is not None and self._judge(chain, folder, name, start, is_folder=False) is not None

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
                admitted = self._judge(chain, above, name, start, is_folder=True) is not None
                chain = self._extend(chain, below) if admitted else None
            self._chains[below] = chain
        return chain

    def _list(self, path: bytes, chain: Chain, state: Any, *, stamped: bool) -> Iterator[tuple[Found, Chain]]:
        try:
            fd = self._opener.open(self._base, path, _LIST, follow=False)
        except OSError:
            return iter(())  # Gone, swapped for a link, or not readable.
        listed: list[tuple[bytes, Found]] = []
        if path:
            chain = self._extend(chain, path)
        try:
            with posix.scandir(fd) as entries:
                for entry in entries:
                    folder = entry.is_dir(follow_symlinks=False)
                    # Most folders have no rules, and most names no place in the answer: those cost one step.
                    if chain or entry.name == ".git":
                        verdict = self._judge(chain, path, entry_bytes(entry.name), state, is_folder=folder)
                    else:
                        verdict = self._step(state, entry_text(entry.name), folder, False)
                    if verdict is None:
                        continue
                    name = entry_bytes(entry.name)
                    regular = entry.is_file(follow_symlinks=False)
                    modified_ns = _modified_ns(entry) if stamped else 0
                    found = Found(_join(path, name), verdict, folder=folder, regular=regular, modified_ns=modified_ns)
                    # With the slash a folder sorts where the paths inside it belong.
                    listed.append((name + b"/" if folder else name, found))
        except OSError:
            pass  # The folder was removed while it was read; what was listed so far counts.
        finally:
            posix.close(fd)
        listed.sort(key=_by_name)
        return iter([(found, chain) for _, found in listed])

    def _judge(self, chain: Chain, folder: bytes, name: bytes, state: Any, *, is_folder: bool) -> Any:
        if name == b".git":
            return None
        ignored: bool | None = None
        text, last = _join(folder, name).decode("latin-1"), name.decode("latin-1")
        for rules, lead, drop in reversed(chain):
            ignored = rules.verdict(lead + text[drop:], last, folder=is_folder)
            if ignored is not None:
                break
        return (
            None if ignored else self._step(state, name.decode("utf-8", "surrogateescape"), is_folder, ignored is False)
        )

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


def _modified_ns(entry: posix.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0  # It was removed since it was listed.


def _by_name(listed: tuple[bytes, Found]) -> bytes:
    return listed[0]
