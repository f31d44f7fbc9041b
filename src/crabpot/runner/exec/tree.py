"""One command's process tree: notice its end, and make sure that nothing of it remains.

The whole tree means every descendant, also one that called setsid or forked twice. While its parent lives, it is found
by descent; orphaned, it is the runner's own child (see prctl.py), and a mark that it inherited tells whose it was.
"""

from __future__ import annotations

from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .reaper import Reaper

GRACE_S = 0.5
# What hangs in the kernel cannot be killed: the call is answered all the same, and says so.
GIVE_UP_S = 3.0
_AGAIN_S = 0.01


class Tree:
    """A root process and all its descendants."""

    exit_code: int | None = None
    signal: int | None = None
    # Whether the root process ended, whatever it left behind.
    exited = False
    stuck = False
    _gone = False
    _kill_at: float | None = None
    _give_up_at: float | None = None

    def __init__(
        self,
        reaper: Reaper,
        pid: int,
        *,
        on_exit: Callable[[], None],
        on_gone: Callable[[], None],
        on_left: Callable[[], None] | None = None,
    ) -> None:
        """Watch a process; with `on_left` what its root leaves behind lives on, and `on_left` is called once."""
        self.mark = reaper.mark
        self.pid = pid
        self._reaper = reaper
        self._on_exit = on_exit
        self._on_gone = on_gone
        self._on_left = on_left
        self._detached = on_left is not None
        reaper.add(self)

    def terminate(self) -> None:
        """Ask all of it to end, and kill it after a grace period."""
        if self._kill_at is None and not self._gone:
            self._kill_at = monotonic() + GRACE_S
            self._reaper.terminate(self)
            self._reaper.loop.set_timer(self, GRACE_S, self.settle)

    def kill(self) -> None:
        """Kill all of it now."""
        self._kill_at = 0.0
        self.settle()

    def root_exited(self, code: int) -> None:
        """Note the root's exit, or by a negative code the signal that ended it; the reaper calls this once."""
        self.exited = True
        self.exit_code = code
        if code < 0:
            self.signal = -code
            self.exit_code = 128 - code
        self._on_exit()

    def settle(self) -> None:
        """Check whether it is over, and do what is due; called at every end of a child, and by its own timer."""
        if self._gone:
            return
        if self.exited and not self._reaper.leftovers(self):
            self._finish()
            return
        now = monotonic()
        if self._kill_at is None:
            if not self.exited or self._detached:
                self._leave()
                return
            self._kill_at = now  # `background` and `detach` are the ways to outlive a call.
        if now < self._kill_at:
            return
        if self._give_up_at is None:
            self._give_up_at = now + GIVE_UP_S
        if now >= self._give_up_at:
            self.stuck = True
            self._finish()
            return
        self._reaper.kill(self)
        self._reaper.loop.set_timer(self, _AGAIN_S, self.settle)

    def _leave(self) -> None:
        if self.exited and self._on_left is not None:
            on_left, self._on_left = self._on_left, None
            on_left()

    def _finish(self) -> None:
        self._gone = True
        if self._kill_at is not None:
            self._reaper.loop.clear_timer(self)
        self._reaper.remove(self)
        self._on_gone()
