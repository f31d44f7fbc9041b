"""What is around a bwrap on this machine: kernel switches, AppArmor's profile, systemd's unit, a system call filter."""

from __future__ import annotations

import os

from crabpot.backends.bubblewrap import remedy
from crabpot.backends.linux import cgroup_delegation
from crabpot.backends.linux.kernel_files import read

_ENABLED = "/sys/module/apparmor/parameters/enabled"
_FREE = ("unconfined", "complain")


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
    # Slow to import, and only for machines with AppArmor.
    import subprocess  # noqa: PLC0415

    from crabpot.backends.linux import processes  # noqa: PLC0415

    reader, writer = os.pipe2(os.O_CLOEXEC)
    # It waits for more arguments from a pipe that says nothing, and is looked at meanwhile.
    try:
        started = subprocess.Popen(
            [path, "--args", str(reader)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[reader],
        )
    except OSError:
        return None
    finally:
        os.close(reader)
    try:
        label = read(f"/proc/{started.pid}/attr/apparmor/current") or read(f"/proc/{started.pid}/attr/current")
    finally:
        os.close(writer)
        processes.kill(started)
    name, _, mode = label.strip().rpartition(" ")
    return name if name and mode.strip("()") not in _FREE else None
