"""One opening: from a spec to a sandbox whose walls were checked, or to nothing at all."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crabpot.backends.bubblewrap import bundle, detached, fork_server, forks, overlay, render
from crabpot.backends.bubblewrap.sandbox import BubblewrapSandbox
from crabpot.backends.bubblewrap.seal import READY
from crabpot.backends.linux import cgroups, etc, groupless, held_files, limits, owner, processes, procs
from crabpot.errors import SandboxUnavailable
from crabpot.settings import TRUSTED_PATH, Io
from crabpot.spec import shims
from crabpot.wire.flow import PIECE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

    from crabpot.backends.bubblewrap.candidates import Chosen
    from crabpot.backends.bubblewrap.fork_server import ForkServer
    from crabpot.backends.bubblewrap.overlay import Review
    from crabpot.backends.bubblewrap.walls import OpeningContext
    from crabpot.spec.spec import SandboxSpec, User

_OPEN_TIMEOUT_S = 60.0
# By default a whole piece of a large file does not fit, and is copied twice more. The kernel caps this.
_QUEUED = 4 * PIECE
_LONGEST_REPORT, _LONGEST_REASON = 65536, 400
_TOO_MUCH = (errno.EINVAL, errno.EMSGSIZE, errno.ETOOMANYREFS)
_UNDO_TIMEOUT_S, _POLL_S = 1.0, 0.002


class NotStarted(SandboxUnavailable):
    """Bwrap or the seal failed; the message is what they printed."""


class TooMuch(SandboxUnavailable):
    """The kernel does not pass so many words or descriptors to a fork server's child as this sandbox needs."""


class Opening:
    """An opening under way."""

    def __init__(  # noqa: PLR0913  all that an opening depends on
        self,
        spec: SandboxSpec,
        context: OpeningContext,
        chosen: Chosen,
        user: User,
        review: Review | None = None,
        *,
        server: ForkServer | None = None,
    ) -> None:
        self._spec = spec
        self._context = context
        self._chosen = chosen
        # A child of the fork server attaches all folders itself; root makes their mounts, others' are found by path.
        mounting: render.Mounting = "attach" if os.geteuid() == 0 else "find"
        self._program = chosen.program if server is None else replace(chosen.program, mounting=mounting)
        self._server = server
        self._user = user
        self._overlay = review if review is not None and review.mechanism == "overlay" else None
        self._label = owner.label(f"{os.urandom(4).hex()}-{spec.name}")
        self._group: cgroups.Cgroup | None = None
        self._stream: socket.socket | None = None
        self._monitor: subprocess.Popen[bytes] | None = None
        self._mark = ""

    async def run(self, hello: Mapping[str, Any]) -> BubblewrapSandbox:
        """Open the sandbox, or raise SandboxUnavailable and leave nothing behind. `hello` is kept for its runner."""
        try:
            with held_files.Fds() as fds:
                start = self._spawn if self._server is None else self._fork
                async with asyncio.timeout(_OPEN_TIMEOUT_S):
                    pid, parent = await start(fds)
                pidfd = fds.add(os.pidfd_open(pid))
                self._check(pid, parent, pidfd)
                assert self._stream is not None
                self._stream.setblocking(False)
                self._unmark()
                return BubblewrapSandbox(
                    self._stream,
                    hello,
                    self._spec.limits,
                    monitor=self._monitor,
                    pid=pid,
                    pidfd=fds.release(pidfd),
                    group=self._group,
                    overlay=None if self._overlay is None else self._spec.workspace_at,
                    server=self._server,
                )
        except TimeoutError:
            self._undo()
            raise SandboxUnavailable(f"the sandbox was not ready after {_OPEN_TIMEOUT_S:g} s") from None
        except (OSError, ValueError, KeyError) as error:
            self._undo()
            raise SandboxUnavailable(f"the sandbox could not be opened: {error}") from error
        except BaseException:
            self._undo()
            raise

    def _undo(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._monitor is not None:
            processes.kill(self._monitor)
        # Its processes die with the monitor, but a moment later. This blocks, since a cancelled task can await nothing.
        deadline = time.monotonic() + _UNDO_TIMEOUT_S
        while self._group is not None and not self._group.remove() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self._unmark()

    def _unmark(self) -> None:
        if self._mark:
            self._mark = ""
            self._context.mark.end()

    def _prepare(self, fds: held_files.Fds) -> tuple[list[held_files.Held], socket.socket]:
        """Hold the host's folders, and make the control group and the wire; return the folders, and its far end."""
        spec, hierarchy = self._spec, self._context.hierarchy
        hold = held_files.hold_all if self._overlay is None else held_files.hold_overlay
        held = hold(spec, self._user, fds)
        if hierarchy is not None and hierarchy.scope is None:
            settings = limits.version_1 if hierarchy.version == 1 else limits.version_2
            disk = cgroups.disk_of(held[0].device) if spec.limits.io != Io() else None
            wanted = settings(spec.limits, disk)
            self._group = cgroups.Cgroup.make(hierarchy, self._label, wanted, agent=spec.agent)
        self._stream, wire = socket.socketpair()
        for end in (self._stream, wire):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _QUEUED)
        return held, wire

    async def _spawn(self, fds: held_files.Fds) -> tuple[int, int]:
        """Have bwrap make it; return its first process, and that one's parent."""
        held, wire = self._prepare(fds)
        self._mark = self._context.mark.begin()
        with wire:
            said, saying = fds.pipe()
            # A pipe of its own, read once at the end: bwrap writes line by line, and each line would wake the loop.
            information, informing = fds.pipe()
            plan = self._plan(fds, held, wire.fileno(), informing)
            before, env = self._scope()
            try:
                entered = groupless.entered(groupless=self._program.groupless)
            except OSError as error:
                raise NotStarted(str(error)) from None
            self._monitor = processes.start(
                self._chosen.candidate.open(fds),
                self._context.walls.arguments(self._spec, plan),
                output=saying,
                fds=[*render.descriptors(plan), *entered],
                user=self._user if os.geteuid() == 0 else None,
                dropper=processes.dropper(),
                before=[*before, *(word for fd in entered for word in groupless.entering(fd, self._user))],
                env=env,
            )
            fds.close(saying)
            fds.close(informing)
        await _await_seal(said)
        pid = int(json.loads(os.read(information, _LONGEST_REPORT))["child-pid"])
        if before:
            assert self._context.hierarchy is not None
            self._group = cgroups.Cgroup.of(self._context.hierarchy, self._monitor.pid, self._label)
        return pid, self._monitor.pid

    def _scope(self) -> tuple[list[str], dict[str, str]]:
        """Return the command by which systemd makes the control group, and its environment, where it does."""
        hierarchy, spec = self._context.hierarchy, self._spec
        if hierarchy is None or hierarchy.scope is None:
            return [], {}
        words = limits.scope(spec.limits, self._label, shown=f"Crabpot's sandbox {spec.name}")
        return words, {"PATH": TRUSTED_PATH, "XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"}

    async def _fork(self, fds: held_files.Fds) -> tuple[int, int]:
        """Have a child of the fork server become it; return its first process, and that one's parent."""
        assert self._server is not None
        turn = await self._server.begin()
        try:
            with self._order(self._server, fds) as reports:
                await processes.readable(reports.fileno())
                said, pid = fork_server.receive(reports)
        finally:
            self._server.finish(turn)
        if said != READY:
            raise NotStarted(said.decode("utf-8", "replace").strip()[:_LONGEST_REASON] or "it ended without a message")
        return pid, self._server.pid

    def _order(self, server: ForkServer, fds: held_files.Fds) -> socket.socket:
        """Send the words to a new child, with their descriptors; return what it reports to."""
        held, wire = self._prepare(fds)
        with wire:
            plan = self._plan(fds, held, wire.fileno(), None)
            sent = render.descriptors(plan)
            plan = replace(plan, numbers={fd: forks.FIRST + index for index, fd in enumerate(sent)})
            try:
                return server.fork(self._context.walls.arguments(self._spec, plan), sent)
            except ConnectionError as error:
                raise NotStarted(f"the fork server is gone: {error}") from None
            except OSError as error:
                if error.errno in _TOO_MUCH:
                    raise TooMuch(f"the sandbox could not be opened: {error}") from None
                raise

    def _plan(
        self, fds: held_files.Fds, held: list[held_files.Held], wire: int, report: int | None
    ) -> render.LaunchPlan:
        context, program = self._context, self._program
        folder = context.bundle.folder
        limited = context.hierarchy is not None and "memory" in context.hierarchy.folders
        return render.LaunchPlan(
            program=program,
            layout=context.layout,
            interpreter=context.bundle.interpreter.path,
            held=tuple(self._mounts(fds, [*held, held_files.hold(f"{folder}/runner", render.RUNNER, "ro", fds)])),
            files=tuple(self._files(fds)),
            wire_fd=wire,
            report_fd=report,
            filter_fd=None if program.seals else fds.open(f"{folder}/{bundle.FILTER}", os.O_RDONLY),
            join_fds=() if self._group is None else tuple(fds.add(fd) for fd in self._group.join_fds()),
            data_bytes=None if limited else int(self._spec.limits.memory),
            mark=self._mark,
            overlay=None if self._overlay is None else self._spec.workspace_at,
        )

    def _mounts(self, fds: held_files.Fds, held: list[held_files.Held]) -> list[held_files.Held]:
        if self._program.mounting != "attach":
            return held
        return [replace(one, fd=fds.add(self._clone(one))) for one in held]

    def _clone(self, one: held_files.Held) -> int:
        if self._overlay is None or one.target != self._spec.workspace_at:
            return detached.clone(one.fd, read_only=one.access == "ro")
        shown_as = self._overlay.shown_as
        ids = None if shown_as is None else overlay.mapping(*shown_as)
        return detached.clone(one.fd, read_only=True, alone=True, ids=ids)

    def _files(self, fds: held_files.Fds) -> Iterator[tuple[str, int]]:
        resolves = self._spec.network.kind == "host"
        made = dict(etc.written(self._user, resolves=resolves, home=self._spec.home_at))
        python = self._context.bundle.interpreter.path
        if self._spec.network.proxied:
            made[etc.SSH_CONFIG] = etc.ssh_config(python, render.RUNNER)
        made |= shims.written(self._spec.host_commands, interpreter=python, runner=render.RUNNER)
        for path, content in made.items():
            fd = fds.add(os.memfd_create(path, os.MFD_CLOEXEC))
            os.pwrite(fd, content, 0)
            yield path, fd
        folder = self._context.bundle.folder
        if self._server is None:
            yield render.SEAL, fds.open(f"{folder}/{bundle.SEAL}", os.O_RDONLY)
        if self._program.seals:
            yield render.FILTER, fds.open(f"{folder}/{bundle.FILTER}", os.O_RDONLY)
        shown = (
            *self._context.layout.copies,
            *((etc.RESOLVER,) if resolves and os.path.isfile(etc.RESOLVER) else ()),
        )
        for path in shown:
            yield path, fds.open(path, os.O_RDONLY)

    def _check(self, pid: int, parent: int, pidfd: int) -> None:
        assert self._stream is not None
        # A pid may have been reused since it was reported; a child of our own process is ours, and nobody but the one
        # that was made has the other end of the wire.
        if owner.parent(pid) != parent or processes.hung_up(self._stream.fileno()):
            raise SandboxUnavailable("the sandbox ended while it opened")
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            dropped = os.geteuid() == 0 or self._program.groupless
            wrong = self._context.walls.missed(file.read(), self._user, dropped=dropped)
        if self._server is not None:
            others = [procs.own_namespaces(), self._server.namespaces]
            wrong += self._context.walls.shared(procs.namespaces(pid), others, self._spec.network.kind)
        if wrong:
            processes.send_signal(pidfd, signal.SIGKILL)
            raise SandboxUnavailable(f"the sandbox is not what it should be ({', '.join(wrong)}); nothing runs in it")


async def _await_seal(said: int) -> None:
    """Wait until the seal says that it is done; what it or bwrap prints instead is the reason for the failure."""
    report = bytearray()
    while READY not in report and len(report) < _LONGEST_REPORT:
        await processes.readable(said)
        piece = os.read(said, _LONGEST_REPORT)
        if not piece:
            break
        report += piece
    if READY not in report:
        lines = report.decode("utf-8", "replace").strip().splitlines()
        # The last line of what bwrap printed, or of a traceback.
        raise NotStarted(lines[-1][:_LONGEST_REASON] if lines else "bwrap ended without a message")
