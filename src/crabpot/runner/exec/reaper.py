"""All children of the runner: collects those that ended, knows whose tree an orphan belongs to, and ends trees."""

from __future__ import annotations

import posix
import resource
from time import monotonic, sleep

from ..core.signals import signal
from . import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..core.loop import Loop
    from .tree import Tree

# Linux has not enforced RLIMIT_LOCKS since 2.4.25, but every child inherits its value, and we can read it: a mark that
# survives setsid, fork and exec, and is not in the environment. A process that changes its own mark only decides with
# which of the agent's calls it ends.
_MARK_LIMIT = 10
_PASSES = 16
_SHUTDOWN_S = 2.0


class Reaper:
    """One per runner. `contained`: every other visible process is one of its own, so all may be signalled."""

    def __init__(self, loop: Loop, *, contained: bool) -> None:
        self.loop = loop
        self._contained = contained
        self._trees: dict[int, Tree] = {}
        self._roots: dict[int, Tree] = {}
        self._childless = True
        self._hard = resource.getrlimit(_MARK_LIMIT)[1]
        # Random, so that the mark of another runner above or beside this one is never taken for its own.
        self.mark = int.from_bytes(posix.urandom(5), "big") << 20
        self._change_mark()

    def _change_mark(self) -> None:
        """Apply `mark`: the next child inherits it, and no earlier one did."""
        self.mark += 1
        try:
            resource.setrlimit(_MARK_LIMIT, (self.mark, self._hard))
        except (OSError, ValueError):
            return  # Without marks an orphan belongs to no call, and ends with the first call that ends.

    def add(self, tree: Tree) -> None:
        """Take over a process that was just started, under the mark that it inherited."""
        self._trees[tree.mark] = tree
        self._roots[tree.pid] = tree
        self._childless = False
        self._change_mark()

    def remove(self, tree: Tree) -> None:
        """Forget a tree of which nothing is left."""
        del self._trees[tree.mark]
        if not tree.exited:
            self._roots.pop(tree.pid, None)

    def collect(self) -> None:
        """Reap all that ended: roots of calls, and orphans that were reparented to the runner."""
        if self._childless:
            return  # The signal of one that was already reaped, and nothing was started here since.
        ended: list[tuple[Tree, int]] = []
        try:
            pid, status = posix.waitpid(-1, posix.WNOHANG)
            while pid:
                # One that has made the runner its tracer reports that it stopped, too, which is no end.
                tree = None if posix.WIFSTOPPED(status) else self._roots.pop(pid, None)
                if tree is not None:
                    ended.append((tree, posix.waitstatus_to_exitcode(status)))
                pid, status = posix.waitpid(-1, posix.WNOHANG)
        except ChildProcessError:
            self._childless = True
        for tree, code in ended:
            tree.root_exited(code)
        for tree in [tree for tree in self._trees.values() if tree.exited]:
            tree.settle()

    def leftovers(self, tree: Tree) -> bool:
        """Return whether anything is left of a tree whose root ended. Free if the runner has no child at all."""
        return not self._childless and bool(self._tops(tree, proc.parents()))

    def _tops(self, tree: Tree, family: dict[int, int]) -> list[int]:
        me = posix.getpid()
        return [pid for pid, parent in family.items() if parent == me and self._belongs(pid, tree)]

    def _belongs(self, pid: int, tree: Tree) -> bool:
        root = self._roots.get(pid)
        if root is not None:
            return root is tree
        try:
            mark = resource.prlimit(pid, _MARK_LIMIT)[0]
        except OSError:
            mark = 0
        # An orphan without an owner belongs to every call: it may not outlive the first one that ends.
        return mark == tree.mark or mark not in self._trees

    def terminate(self, tree: Tree) -> None:
        """Ask every process of a tree to end; stopped ones are woken to receive it."""
        family = proc.parents()
        members = proc.below(self._tops(tree, family), family)
        for number in (signal.SIGTERM, signal.SIGCONT):
            for pid, parent in members.items():
                proc.send(pid, parent, number)

    def kill(self, tree: Tree) -> None:
        """Kill every process of a tree. A fork bomb is first stopped whole: killed one by one it would grow back."""
        if self._contained and len(self._trees) == 1:
            # One system call, against which no fork can race.
            _signal_all(signal.SIGKILL)
            return
        if self._stop_and_kill(tree) or not self._contained:
            return
        # Something forks faster than it can be found. Everything is stopped for a moment, then all but this tree go on.
        _signal_all(signal.SIGSTOP)
        self._stop_and_kill(tree)
        _signal_all(signal.SIGCONT)

    def _stop_and_kill(self, tree: Tree | None) -> bool:
        stopped: dict[int, int] = {}
        settled = False
        for _ in range(_PASSES):
            family = proc.parents()
            tops = self._tops(tree, family) if tree else [p for p, of in family.items() if of == posix.getpid()]
            members = proc.below(tops, family)
            fresh = {pid: parent for pid, parent in members.items() if pid not in stopped}
            if not fresh:
                settled = True
                break
            for pid, parent in fresh.items():
                proc.send(pid, parent, signal.SIGSTOP)
            stopped.update(fresh)
        for pid, parent in stopped.items():
            proc.send(pid, parent, signal.SIGKILL)
        return settled

    def kill_everything(self) -> None:
        """Kill all, at the runner's own end. Waits until everything is gone, except for what the kernel cannot end."""
        deadline = monotonic() + _SHUTDOWN_S
        while monotonic() < deadline:
            try:
                while posix.waitpid(-1, posix.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            if self._contained:
                _signal_all(signal.SIGKILL)
            else:
                self._stop_and_kill(None)
            sleep(0.002)


def _signal_all(number: int) -> None:
    try:
        posix.kill(-1, number)
    except OSError:
        return  # No process, or none that we may signal.
