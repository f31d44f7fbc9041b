"""Find the newest paths that a pattern names, in a tree of many folders by several processes.

ripgrep is no help here: it lists neither links nor pipes nor times, all of which are part of the answer.
"""

from __future__ import annotations

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .globbing import Glob
    from .walk import Found, Walk

# A fork costs as much as a hundred small folders: a tree of few is faster walked alone, and so is one so deep and
# narrow that hardly any folder is known beyond those that were listed.
_FEW, _ENOUGH = 256, 32
# One byte in a pipe is one part.
_PARTS = 256
_MOST_PROCESSES = 4


class Newest:
    """The newest of the paths that were added: a tree of millions of files needs no list of millions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Each after its time, which is negative: the least is the newest.
        self.paths: list[tuple[int, bytes]] = []
        self.truncated = False

    def add(self, paths: list[tuple[int, bytes]]) -> None:
        """Take more paths in."""
        self.paths += paths
        if len(self.paths) > 4 * self._limit:
            self.settle()

    def settle(self) -> None:
        """Put them in order, and drop what is beyond the limit."""
        self.paths.sort()
        if len(self.paths) > self._limit:
            del self.paths[self._limit :]
            self.truncated = True

    def encode(self) -> bytes:
        """Return all of it for decode() in another process; no path has a NUL."""
        times = [b"%d" % time for time, _ in self.paths]
        return b"\0".join([b"%d" % self.truncated, *times, *[path for _, path in self.paths]])

    def decode(self, data: bytes) -> None:
        """Take in what another process found."""
        truncated, *rest = data.split(b"\0")
        self.truncated |= truncated == b"1"
        middle = len(rest) // 2
        self.add(list(zip(map(int, rest[:middle]), rest[middle:])))  # noqa: B905  # Python 3.9 has no `strict`


class Search:
    """A walk and what it looks for; `processes` may take part in it, by default one for each processor."""

    def __init__(self, walk: Walk, pattern: Glob, limit: int, processes: int | None = None) -> None:
        self._walk = walk
        self._pattern = pattern
        self._limit = limit
        self._processes = processes or min(len(posix.sched_getaffinity(0)), _MOST_PROCESSES)

    def run(self) -> Newest:
        """Walk the whole tree."""
        newest = Newest(self._limit)
        folders = [self._walk.top(self._pattern.start)]
        # Breadth first: what is left then is many folders, each with all that is below it.
        listed = 0
        while listed < len(folders) <= _FEW:
            folders += self._look_into(folders[listed], newest)
            listed += 1
        del folders[:listed]
        if self._processes == 1 or len(folders) < _ENOUGH:
            self._walk_through(folders, newest)
        elif not self._share(folders, newest):
            return Search(self._walk, self._pattern, self._limit, processes=1).run()
        newest.settle()
        return newest

    def _look_into(self, folder: Found, newest: Newest) -> list[Found]:
        """Take in what matches in a folder, and return the folders in it."""
        pattern = self._pattern
        inside = self._walk.inside(folder, folder_times=pattern.folders, file_times=not pattern.folders)
        newest.add(
            [
                (-found.modified_ns, found.path)
                for found in inside
                if found.folder is pattern.folders and pattern.matches(found.state)
            ]
        )
        return [found for found in inside if found.folder]

    def _walk_through(self, folders: list[Found], newest: Newest) -> None:
        # Depth first: a tree may have more folders than should be remembered at once.
        while folders:
            folders += self._look_into(folders.pop(), newest)

    def _share(self, folders: list[Found], newest: Newest) -> bool:
        """Walk what is below all of them, and return False if a process that took part ended early."""
        parts = [folders[at::_PARTS] for at in range(_PARTS)]
        queue, writer = posix.pipe2(posix.O_CLOEXEC)
        posix.write(writer, bytes(range(_PARTS)))
        posix.close(writer)
        helpers = [self._start(queue, parts) for _ in range(self._processes - 1)]
        self._take_parts(queue, parts, newest)
        posix.close(queue)
        answers = [_answer(*helper) for helper in helpers if helper is not None]
        for answer in answers:
            if answer is None:
                return False
            newest.decode(answer)
        return True

    def _take_parts(self, queue: int, parts: list[list[Found]], newest: Newest) -> None:
        # Whoever is done takes the next: one part of a tree may hold most of it, and one processor be busy.
        while taken := posix.read(queue, 1):
            self._walk_through(parts[taken[0]], newest)

    def _start(self, queue: int, parts: list[list[Found]]) -> tuple[int, int] | None:
        """Start a process that takes parts, and return its id and where its answer comes; None if there may be none."""
        reader, writer = posix.pipe2(posix.O_CLOEXEC)
        try:
            pid = posix.fork()
        except OSError:
            posix.close(reader)
            posix.close(writer)
            return None
        if pid == 0:
            status = 1
            try:
                newest = Newest(self._limit)
                self._take_parts(queue, parts, newest)
                newest.settle()
                _write_all(writer, newest.encode())
                status = 0
            finally:
                posix._exit(status)  # noqa: SLF001
        posix.close(writer)
        return pid, reader


def _answer(pid: int, reader: int) -> bytes | None:
    pieces = []
    while piece := posix.read(reader, 1 << 20):
        pieces.append(piece)
    posix.close(reader)
    return None if posix.waitpid(pid, 0)[1] else b"".join(pieces)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[posix.write(fd, rest) :]
