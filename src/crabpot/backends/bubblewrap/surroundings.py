"""What is around a bwrap on this machine: kernel switches, AppArmor's profile, systemd's unit, a system call filter."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from crabpot.backends.bubblewrap import remedy
from crabpot.backends.linux import cgroup_delegation
from crabpot.backends.linux.kernel_files import read

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENABLED = "/sys/module/apparmor/parameters/enabled"
_REVISION = "/sys/kernel/security/apparmor/revision"
_FREE = ("unconfined", "complain")
_BEGIN_S = 20.0


def look(path: str) -> remedy.Circumstances:
    """Find out what could keep this bwrap from making a sandbox."""
    return remedy.Circumstances(
        path=path,
        switches=switches(),
        profile=_profile_of(path),
        unit=unit(),
        filtered=_is_filtered(),
    )


def switches() -> dict[str, str]:
    """Return the kernel settings that govern user namespaces."""
    found = {name: read(f"/proc/sys/{name}").strip() for name in remedy.SWITCHES}
    return {name: value for name, value in found.items() if value}


def has_apparmor() -> bool:
    """Return whether AppArmor is on."""
    return read(_ENABLED).strip() == "Y"


def policy(path: str = _REVISION) -> str:
    """Return the number that grows with each profile that is loaded or removed; "" without AppArmor."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        # Once only: a second read waits until the number changes, and so does the first where nothing was ever loaded.
        return os.read(fd, 32).decode("ascii", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


def unit() -> str | None:
    """Return the service of systemd's that this process belongs to, or None."""
    path = cgroup_delegation.own_path(read("/proc/self/cgroup"))
    for name in (os.path.basename(path), os.path.basename(os.path.dirname(path))):
        if name.endswith(".service") and not name.startswith("user@"):
            return name
    return None


def _is_filtered() -> bool:
    return "\nSeccomp:\t2\n" in read("/proc/self/status")


def _profile_of(path: str) -> str | None:
    """Return the profile that confines it, as the kernel says of one that was started; None where none does."""
    if not has_apparmor():
        return None
    try:
        with waiting(path) as pid:
            label = read(f"/proc/{pid}/attr/apparmor/current") or read(f"/proc/{pid}/attr/current")
    except OSError:
        return None
    name, _, mode = label.strip().rpartition(" ")
    return name if name and mode.strip("()") not in _FREE else None


@contextmanager
def waiting(path: str) -> Iterator[int]:
    """Start a bwrap that waits for the rest of its arguments, from a pipe that never ends; give its process id."""
    # Slow to import, and only for machines with AppArmor.
    import fcntl  # noqa: PLC0415
    import select  # noqa: PLC0415
    import subprocess  # noqa: PLC0415

    from crabpot.backends.linux import processes  # noqa: PLC0415
    from crabpot.backends.linux.held_files import Fds  # noqa: PLC0415

    with Fds() as fds:
        reader, writer = fds.pipe()
        os.write(writer, bytes(fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1)))
        started = subprocess.Popen(
            [path, "--args", str(reader)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[reader],
        )
        fds.close(reader)
        # The kernel lets us go on before it has given the new program its profile. Once the program reads, there is
        # room in the full pipe; if it ends, nobody can read.
        room = select.poll()
        room.register(writer, select.POLLOUT)
        try:
            room.poll(_BEGIN_S * 1000)
            yield started.pid
        finally:
            processes.kill(started)
