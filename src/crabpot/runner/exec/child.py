"""One running command: its process tree, and the traffic on its three descriptors."""

from __future__ import annotations

import posix

from ..core.loop import READ, WRITE
from . import spawn
from .tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .reaper import Reaper
    from .spawn import Spawned

_READ_SIZE = 64 << 10
# A pipe holds at most this much unless root enlarged it: all that a command wrote before it ended fits.
_DRAIN = 1 << 20
_END_OF_FILE = b"\x04"


class Child:
    """Calls `on_output(stream, data)` with what it writes and `on_gone()` when nothing is left of it."""

    paused = False
    _pending_size = 0
    _ending = _line_open = False

    def __init__(  # noqa: PLR0913  what it reports, each to its own listener
        self,
        reaper: Reaper,
        spawned: Spawned,
        *,
        on_output: Callable[[str, bytes], None],
        on_gone: Callable[[], None],
        on_consumed: Callable[[int], None],
        on_left: Callable[[], None] | None = None,
    ) -> None:
        self._loop = loop = reaper.loop
        self._reaper = reaper
        self._on_output = on_output
        self._on_gone = on_gone
        self._on_consumed = on_consumed
        # Those that are open.
        self._outputs = spawned.outputs
        self._stdin = spawned.stdin
        self._keep = spawned.keep
        self._pending: list[memoryview] = []
        for fd in (spawned.stdin, spawned.keep):
            if fd >= 0:
                loop.own(fd)
        self.tree = Tree(reaper, spawned.pid, on_exit=self._drain, on_gone=self._close, on_left=on_left)
        self.resume()

    @property
    def on_terminal(self) -> bool:
        """Return whether it runs on a pseudo-terminal."""
        return self._keep >= 0

    @property
    def unread_input(self) -> int:
        """Return how much input waits for the command to read it."""
        return self._pending_size

    def pass_on(self, on_output: Callable[[str, bytes], None], on_gone: Callable[[], None]) -> None:
        """Report to somebody else from now on: what a detached command left running outlives its call."""
        self._on_output = on_output
        self._on_gone = on_gone
        self._on_consumed = lambda _size: None
        if self.paused:
            self.resume()

    # --- output -------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop reading its output: the kernel then makes it wait."""
        self.paused = True
        for fd in self._outputs.values():
            self._loop.unwatch(fd)

    def resume(self) -> None:
        """Read its output as it comes."""
        self.paused = False
        for name, fd in self._outputs.items():
            self._loop.watch(fd, READ, self._stdout_ready if name == "stdout" else self._stderr_ready)

    def _stdout_ready(self) -> None:
        self._read("stdout")

    def _stderr_ready(self) -> None:
        self._read("stderr")

    def _read(self, name: str) -> int:
        fd = self._outputs.get(name)
        if fd is None:
            return 0
        try:
            data = posix.read(fd, _READ_SIZE)
        except BlockingIOError:
            return 0
        except OSError:  # EIO is how a terminal says that no process has it open any more.
            data = b""
        if data:
            self._on_output(name, data)
            return len(data)
        del self._outputs[name]
        self._loop.close_soon(fd)
        if not self._outputs and not self.tree.exited:
            # Usually it ended with this, and its exit status is available before the signal that announces it.
            self._reaper.collect()
        return 0

    def _drain(self) -> None:
        for name in tuple(self._outputs):
            left = _DRAIN
            while left > 0 and name in self._outputs:
                size = self._read(name)
                left -= size or left

    # --- input --------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Queue `data` for its input; call `on_consumed` once it is in the pipe, or nobody is left to read it."""
        if self._stdin < 0 or self._ending:
            self._on_consumed(len(data))
            return
        # A copy: what came is overwritten by what comes next.
        self._pending.append(memoryview(bytes(data)))
        self._pending_size += len(data)
        if len(self._pending) == 1:
            self._write()

    def end_input(self) -> None:
        """Close its standard input once everything fed to it is read."""
        if self._stdin >= 0 and not self._ending:
            if self.on_terminal:
                # A terminal takes the character as the end of input only on an empty line; otherwise it is sent twice.
                self._pending.append(memoryview(_END_OF_FILE * 2 if self._line_open else _END_OF_FILE))
            self._ending = True
            self._write()

    def resize(self, rows: int, cols: int) -> None:
        """Set the size of its terminal."""
        if self.on_terminal:
            spawn.set_size(self._keep, rows, cols)

    def _write(self) -> None:
        while self._pending:
            piece = self._pending[0]
            try:
                size = posix.write(self._stdin, piece)
            except BlockingIOError:
                self._loop.watch(self._stdin, WRITE, self._write)
                return
            except OSError:
                self._drop_input()
                return
            if size:
                self._line_open = piece[size - 1] != ord("\n")
            if size == len(piece):
                del self._pending[0]
            else:
                self._pending[0] = piece[size:]
            self._count(size)
        self._loop.unwatch(self._stdin)
        if self._ending and not self.on_terminal:
            self._drop_input()

    def _drop_input(self) -> None:
        if self._stdin >= 0:
            self._loop.close_soon(self._stdin)
            self._stdin = -1
        self._pending = []
        if self._pending_size:
            self._count(self._pending_size)

    def _count(self, size: int) -> None:
        counted = min(size, self._pending_size)
        self._pending_size -= counted
        if counted:
            self._on_consumed(counted)

    # --- the end ------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        self._drop_input()
        for fd in self._outputs.values():
            self._loop.close_soon(fd)
        self._outputs = {}
        if self._keep >= 0:
            self._loop.close_soon(self._keep)
        self._on_gone()
