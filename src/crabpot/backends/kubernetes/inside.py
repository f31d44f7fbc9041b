"""What the kernel says of a pod, from inside, before anything of the agent's runs there.

Standard library only, Python 3.9 and newer.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def report() -> dict[str, Any]:
    """Return what the kernel says of this process and its surroundings."""
    status = _status()
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": os.getgroups(),
        "pid": os.getpid(),
        "capabilities": [status.get(name) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
        "privileges": status.get("NoNewPrivs"),
        "seccomp": status.get("Seccomp_filters"),
        "mounts": _mounts(),
        "account": os.path.exists("/var/run/secrets/kubernetes.io"),
        "services": sorted(name for name in os.environ if name.endswith("_SERVICE_HOST")),
        "users": _first_line("/proc/self/uid_map").split(),
        "control_groups": _has_own_control_groups(),
        "kernel": os.uname().release,
        "gvisor": "gvisor" in _first_line("/proc/version") or "Linux version 4.4.0 " in _first_line("/proc/version"),
        "limits": _limits(),
        "counted": _counts_processes(),
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
    }


def _status() -> dict[str, str]:
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def _mounts() -> dict[str, list[str]]:
    """Return the options and the kind of what is mounted at each place; the last one at a place is what is seen."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        found = [line.split() for line in file]
    return {one[4]: [*one[5].split(","), one[one.index("-") + 1]] for one in found}


def _has_own_control_groups() -> bool:
    """Return whether each control group is the root of what it sees: a pod on cgroup v1 is in the node's namespace."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            groups = file.read().splitlines()
    except OSError:
        return False
    return bool(groups) and all(one.endswith(":/") for one in groups)


def _limits() -> dict[str, str]:
    places = {
        "memory": ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        "cpu": ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    }
    return {name: next(filter(None, map(_first_line, paths)), "") for name, paths in places.items()}


def _counts_processes() -> bool:
    """Return whether a user can have no more processes than its limit says: gVisor's kernel takes it and ignores it."""
    import resource  # noqa: PLC0415

    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            if os.fork():
                os.wait()
        except BlockingIOError:
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def filtered() -> dict[str, Any]:
    """Return what it says once the filter is taken."""
    status = _status()
    return {"mode": status.get("Seccomp"), "filters": status.get("Seccomp_filters"), "inet": _has_inet()}


def _has_inet() -> bool:
    import socket  # noqa: PLC0415

    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.socket(family).close()
        except OSError:
            continue
        return True
    return False
