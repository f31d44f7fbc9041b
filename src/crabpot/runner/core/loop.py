"""The single thread of the runner: waits for descriptors, signals and deadlines, and owns the descriptors of its calls.

`posix` instead of `os`, here and elsewhere: `os` imports eight more modules, and the runner must start in milliseconds.
"""

from __future__ import annotations

import posix
import select
from time import monotonic

from .signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

READ = select.EPOLLIN
WRITE = select.EPOLLOUT


def _note_signal(_number: int, _frame: object) -> None:
    """Do nothing: it exists so that Python installs its C handler, which writes the number to the wake-up pipe."""


_LONGEST_WAIT_S = 86_400.0


class Loop:
    """Level-triggered: a callback that leaves something unread is simply called again.

    A callback may run for a descriptor that was closed and reused since the kernel reported it, so all of them work on
    non-blocking descriptors and accept that there is nothing to read.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._timers: dict[object, tuple[float, Callable[[], None]]] = {}
        self._held: dict[object, tuple[float, Callable[[], None]]] = {}
        self._soon: dict[object, Callable[[], None]] = {}
        self._fds: set[int] = set()
        self._closing: list[int] = []
        self._running = True
        # When the first timer may be due: never later than it is.
        self._first_due = 0.0

    def own(self, fd: int) -> int:
        """Mark `fd` as one that a forked child must not keep: it would hold other calls' pipes open.

        What is watched is owned anyway.
        """
        self._fds.add(fd)
        return fd

    def watch(self, fd: int, mask: int, callback: Callable[[], None]) -> None:
        """Own `fd`, and call `callback` whenever it is ready for `mask`, or broken."""
        if fd in self._callbacks:
            self._epoll.modify(fd, mask)
        else:
            self._epoll.register(fd, mask)
            self._fds.add(fd)
        self._callbacks[fd] = callback

    def unwatch(self, fd: int) -> None:
        """Stop watching `fd`, also for a hang-up."""
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self, fd: int) -> None:
        """Close `fd`, and remove it from epoll, which otherwise keeps reporting what a forked child still holds."""
        self.unwatch(fd)
        self._fds.discard(fd)
        posix.close(fd)

    def close_soon(self, fd: int) -> None:
        """Close `fd` at the end of this round: after an answer that would otherwise wait for it."""
        self._closing.append(fd)

    def set_timer(self, key: object, delay_s: float, callback: Callable[[], None]) -> None:
        """Call `callback` once after `delay_s`; a key has one timer, the last one set."""
        due = monotonic() + delay_s
        if not self._timers or due < self._first_due:
            self._first_due = due
        self._timers[key] = (due, callback)

    def clear_timer(self, key: object) -> None:
        """Clear the timer of `key`, if it has one."""
        self._timers.pop(key, None)
        self._held.pop(key, None)

    def hold_timer(self, key: object) -> None:
        """Let no time pass for the timer of `key`, if it has one, until it is resumed."""
        found = self._timers.pop(key, None)
        if found is not None:
            self._held[key] = (found[0] - monotonic(), found[1])

    def resume_timer(self, key: object) -> None:
        """Let time pass again for a timer that was held."""
        found = self._held.pop(key, None)
        if found is not None:
            self.set_timer(key, *found)

    def soon(self, key: object, callback: Callable[[], None]) -> None:
        """Call `callback` once at the end of this round, after all events, however often it was requested."""
        self._soon[key] = callback

    def catch(self, signals: tuple[int, ...], on_signal: Callable[[bytes], None]) -> None:
        """Hand the numbers of arriving signals to `on_signal`, in a round of the loop and never between two lines."""
        reader, writer = posix.pipe2(posix.O_CLOEXEC | posix.O_NONBLOCK)
        self.own(writer)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in signals:
            signal.signal(number, _note_signal)

        def arrived() -> None:
            try:
                on_signal(posix.read(reader, 4096))
            except BlockingIOError:
                pass

        self.watch(reader, READ, arrived)

    def stop(self) -> None:
        """End run() after this round."""
        self._running = False

    def run(self) -> None:
        """Run rounds until stop()."""
        poll, callbacks, timers, closing = self._epoll.poll, self._callbacks, self._timers, self._closing
        while self._running:
            timeout_s = -1.0
            if self._soon:
                timeout_s = 0
            elif timers:
                # The kernel counts milliseconds in 31 bits; what is later is looked at again.
                timeout_s = min(max(0.0, self._first_due - monotonic()), _LONGEST_WAIT_S)
            for fd, _ in poll(timeout_s):
                callback = callbacks.get(fd)
                if callback is not None:
                    callback()
            if timers and monotonic() >= self._first_due:
                self._run_timers()
            if self._soon:
                todo, self._soon = self._soon, {}
                for callback in todo.values():
                    callback()
            while closing:
                self.close(closing.pop())

    def _run_timers(self) -> None:
        now = monotonic()
        for key, (due, callback) in list(self._timers.items()):
            # A timer that ran before may have cleared or moved this one.
            if due <= now and self._timers.get(key) == (due, callback):
                del self._timers[key]
                callback()
        self._first_due = min((due for due, _ in self._timers.values()), default=0.0)

    def abandon(self) -> None:
        """Release, in a forked child, all that belongs to the parent's calls."""
        signal.set_wakeup_fd(-1)
        self._epoll.close()
        for fd in self._fds:
            posix.close(fd)
