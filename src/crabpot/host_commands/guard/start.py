"""Start a runner in a guard, or refuse: the kernel's facts about it are checked from outside before it is used."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.backends import runner_source
from crabpot.backends.bubblewrap import candidates, remedy, surroundings
from crabpot.backends.host.backend import END_S, HostRunner, greeting
from crabpot.backends.linux import owner
from crabpot.backends.linux.held_files import Fds
from crabpot.errors import HostRefused
from crabpot.host_commands.guard import filter as calls
from crabpot.host_commands.guard.view import KEPT_BY_ROOT, Descriptors, View, arguments, hidden_files, writable
from crabpot.scheduling.threads import leave_behind, take_along
from crabpot.settings import TRUSTED_PATH
from crabpot.wire.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LONGEST_REPORT = 65536
_PROBE_S = 20.0
_LONGEST_REASON = 400
# The namespaces that a guard never shares with the gateway.
_APART = ("mnt", "pid", "ipc")
# The nodes in a guard are the host's own: root could change their owner and mode, unless they are mounted read-only.
_LOCK_DEVICES = (
    'for one in null zero full random urandom tty; do "$0" -n -o bind,ro /dev/$one /dev/$one || exit 1; done; exec "$@"'
)
_CAPABILITIES = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_FOWNER": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bwrap:
    """The bwrap that makes guards, and the words that start it in a mount namespace apart from the host's."""

    path: str
    apart: tuple[str, ...] = ()
    """Empty if this machine has no such way: what the host mounts later then appears in the guard, too."""

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return what to start."""
        return [*self.apart, self.path, *arguments]


def find() -> Bwrap | str:
    """Return the bwrap to make guards with, or why there is none."""
    reasons = []
    for candidate in candidates.candidates():
        reason = candidates.privileged(candidate.path)
        for apart in () if reason else _ways_apart():
            bwrap = Bwrap(path=candidate.path, apart=apart)
            reason = _failure(bwrap)
            if reason is None:
                return bwrap
        reasons.append(reason or "")
    return "; ".join(reasons) or "no bwrap on this machine: apt-get install bubblewrap"


def _ways_apart() -> tuple[tuple[str, ...], ...]:
    """Return the words that may precede bwrap, best first."""
    unshare, mount = (shutil.which(name, path=TRUSTED_PATH) or name for name in ("unshare", "mount"))
    private = ("--mount", "--propagation", "private", "--")
    if os.geteuid() == 0:
        return ((unshare, *private, "/bin/sh", "-c", _LOCK_DEVICES, mount),)
    # Machines that let nobody but bwrap make a user namespace do without.
    return (unshare, "--user", "--map-current-user", *private), ()


def _failure(bwrap: Bwrap) -> str | None:
    """Try the smallest guard with all its namespaces; return why that fails, or None."""
    bare = View(hides=(), shows=(), writes=(), root=os.geteuid() == 0)
    with Fds() as fds:
        given = _descriptors(bare, fds.open("/dev/null", os.O_WRONLY), fds)
        command = bwrap.command([*arguments(bare, given, folder="/"), "/bin/true"])
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                pass_fds=given.all(),
                timeout=_PROBE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{bwrap.path}: {error}"
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
    return f"{bwrap.path}: {remedy.explain(said[-1], surroundings.look(bwrap.path))}"


class _Heard(NamedTuple):
    """What bwrap reports about a guard, on descriptors that are closed with it."""

    errors: int
    report: int
    fds: Fds


class Guarded(HostRunner):
    """A runner in a guard. When its stream closes, it ends with everything it runs."""

    def __init__(
        self, channel: Channel, hello: Mapping[str, Any], process: subprocess.Popen[bytes], view: View, heard: _Heard
    ) -> None:
        super().__init__(channel, hello, process, end_s=END_S)
        self._view = view
        self._heard = heard

    def check(self) -> None:
        """Refuse a guard whose first process does not look as it should to the kernel."""
        wrong = self._missed()
        if wrong:
            raise HostRefused("denied", f"the guard is not what it should be ({', '.join(wrong)}); nothing runs in it")

    def _missed(self) -> list[str]:
        try:
            pid = int(json.loads(os.read(self._heard.report, _LONGEST_REPORT))["child-pid"])
            # The pid may have been reused since it was reported; a child of our own process is ours.
            if owner.parent(pid) != self.pid:
                return ["it ended"]
            # What runs in it is as any other program of the host.
            leave_behind(pid)
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
                said = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        except (OSError, ValueError, KeyError):
            return ["it ended"]
        wanted = {"NoNewPrivs": "1", "Seccomp": "2", **dict.fromkeys(("CapPrm", "CapEff", "CapInh"), _kept(self._view))}
        apart = [name for name in _APART if _namespace("self", name) == _namespace(str(pid), name)]
        return [name for name, value in wanted.items() if said.get(name) != value] + apart

    def reason(self) -> str:
        """Return what bwrap or the runner printed last, if the guard could not be made."""
        os.set_blocking(self._heard.errors, False)
        try:
            lines = os.read(self._heard.errors, _LONGEST_REPORT).decode("utf-8", "replace").strip().splitlines()
        except BlockingIOError:
            lines = []
        return lines[-1][:_LONGEST_REASON] if lines else "it ended without any output"

    async def close(self) -> None:
        """End the guard and everything in it."""
        try:
            await super().close()
        finally:
            self._heard.fds.__exit__()


def start(view: View, bwrap: Bwrap, *, folder: str, output_limit: int, environ: Mapping[str, str]) -> Guarded:
    """Start a runner in a guard, in the command's folder; HostRefused if bwrap cannot be started."""
    hello = greeting(folder, output_limit=output_limit, environ=environ)
    hello |= {"contained": True, "writable": list(writable(view)), "readable": list(view.readable)}
    hello["blank"] = [place.path for place in view.hides if not place.folder]
    kept = Fds()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs, Fds() as fds:
        said, saying = kept.pipe()
        information, informing = kept.pipe()
        given = _descriptors(view, informing, fds)
        made = arguments(view, given, folder=folder)
        # Without links: one in /tmp or /var/tmp, as a .venv may be, does not exist in the guard.
        runner = (os.path.realpath(sys.executable), "-I", "-S", os.path.realpath(runner_source.PROGRAM))
        try:
            process = subprocess.Popen(
                bwrap.command([*made, *runner, "--fd", str(theirs.fileno())]),
                stdin=subprocess.DEVNULL,
                stdout=saying,
                stderr=saying,
                pass_fds=[*given.all(), theirs.fileno()],
                env={},
                start_new_session=True,
            )
        except BaseException as error:
            kept.__exit__()
            ours.close()
            if isinstance(error, OSError):
                raise HostRefused("denied", f"no guard can be made: {bwrap.path}: {error.strerror}") from None
            raise
        # Making a guard takes a dozen programs, and each would wait for what agents keep busy.
        take_along(process.pid)
        kept.close(saying)
        kept.close(informing)
    heard = _Heard(errors=said, report=information, fds=kept)
    return Guarded(Channel(sock=ours), hello, process, view, heard)


def _descriptors(view: View, report: int, fds: Fds) -> Descriptors:
    rules = fds.add(os.memfd_create("seccomp", os.MFD_CLOEXEC))
    os.write(rules, calls.program(os.uname().machine, sockets=view.sockets, owner=view.owner))
    os.lseek(rules, 0, os.SEEK_SET)
    empty = tuple(fds.add(os.memfd_create("empty", os.MFD_CLOEXEC)) for _ in range(hidden_files(view)))
    return Descriptors(filter=rules, report=report, empty=empty)


def _kept(view: View) -> str:
    return f"{sum(1 << _CAPABILITIES[name] for name in KEPT_BY_ROOT) if view.root else 0:016x}"


def _namespace(pid: str, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")
