"""What a live sandbox is, according to the kernel: read inside by a small program, and outside where none can lie."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.backends.docker.counters import group_mounts
from crabpot.backends.linux import procs
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from crabpot.decide.placement import Placement
    from crabpot.sandboxes.execution import Execution
    from crabpot.settings import AgentSettings

_TIMEOUT_S = 20.0
_LARGEST = 1024**2

# Reads, and changes nothing. One line of JSON; what cannot be read is reported as the error's name.
_PROGRAM = r"""
import json, os, resource, stat
def text(path):
    try:
        with open(path, "rb") as stream:
            return stream.read(1 << 20).decode("utf-8", "replace")
    except OSError as error:
        return error.strerror
def link(path):
    try:
        return os.readlink(path)
    except OSError as error:
        return error.strerror
def mounts():
    for line in text("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        # One that another covers is out of reach; /dev/null over a file of /proc is not a writable folder.
        if os.path.lexists(fields[4]):
            device = stat.S_ISCHR(os.lstat(fields[4]).st_mode)
            yield {"place": fields[4], "flags": fields[5], "kind": "device" if device else after.split()[0]}
def size(path):
    try:
        found = os.statvfs(path)
        return found.f_frsize * found.f_blocks
    except OSError:
        return None
def groups(names):
    for name in names:
        for folder in ("", "memory/", "cpu/", "pids/"):
            if os.path.exists("/sys/fs/cgroup/" + folder + name):
                yield name, text("/sys/fs/cgroup/" + folder + name).strip()
mine = dict(line.split(":\t", 1) for line in text("/proc/self/status").splitlines() if ":\t" in line)
kinds = ("NOFILE", "FSIZE", "NPROC", "CORE", "DATA")
print(json.dumps({
    "status": {name: " ".join(mine.get(name, "").split()) for name in STATUS},
    "namespaces": {name: link("/proc/self/ns/" + name) for name in NAMESPACES},
    "uid_map": " ".join(text("/proc/self/uid_map").split()),
    "gid_map": " ".join(text("/proc/self/gid_map").split()),
    "mounts": list(mounts()),
    "interfaces": [line.split(":")[0].strip() for line in text("/proc/net/dev").splitlines() if ":" in line],
    "environment": sorted(os.environ),
    "limits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1] for name in kinds},
    "sizes": {path: size(path) for path in ("/tmp", "/var/tmp", "/dev/shm")},
    "groups": dict(groups(FILES)),
    "apparmor": text("/proc/self/attr/current").strip("\0\n"),
}))
"""

_FILES = (
    *("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.soft_limit_in_bytes", "pids.max"),
    *("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares"),
    *("blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"),
    *("memory.max", "memory.swap.max", "memory.low", "cpu.max", "cpu.weight", "io.max"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that was read. `outside` is what `procs` reports, `groups` the settings of its control groups by file."""

    inside: Mapping[str, Any]
    outside: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return all of it, and the digest that the audit log has for what is seen from outside."""
        return {
            "inside": dict(self.inside),
            "outside": dict(self.outside),
            "groups": dict(self.groups),
            "digest": procs.digest(self.outside),
        }


async def read(execution: Execution, agent: AgentSettings, placed: Placement) -> Facts:
    """Read the facts of a session's live sandbox, which is opened if need be; CrabpotError if it does not report them.

    This bypasses the session's policy: it is the operator who looks, and nothing but this runs.
    """
    live = await execution.acquire(agent, placed)
    program = f"STATUS, NAMESPACES, FILES = {procs.STATUS!r}, {procs.NAMESPACES!r}, {_FILES!r}\n{_PROGRAM}"
    args = {"command": "exec python3 -I -S -"}
    reply = await live.wire.call("exec", args, timeout_s=_TIMEOUT_S, source=_once(program.encode()))
    try:
        inside = json.loads(reply.stdout)
    except ValueError:
        inside = None
    if not isinstance(inside, dict):
        why = reply.error[1] if reply.error else reply.stderr.strip()[-200:] or "it said nothing that is a fact"
        raise CrabpotError(f"the sandbox does not tell what it is: {why}")
    pid = live.sandbox.pid
    # Where another machine's kernel runs it, what is seen inside is all there is.
    groups = inside.get("groups") or {} if pid is None else dict(_group_settings(pid))
    return Facts(inside=inside, outside=procs.look(pid), groups=groups)


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _group_settings(pid: int) -> Iterable[tuple[str, str]]:
    mounts = group_mounts(_content("/proc/self/mountinfo"))
    for line in _content(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for root, place, kind, options in mounts:
            fits = kind == "cgroup" and set(controllers.split(",")) & set(options) if controllers else kind == "cgroup2"
            folder = f"{place}{path.removeprefix(root.rstrip('/'))}"
            for name in _FILES if fits else ():
                if os.path.exists(f"{folder}/{name}"):
                    yield name, _content(f"{folder}/{name}").strip()


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""
