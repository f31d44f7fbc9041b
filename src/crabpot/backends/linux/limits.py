"""A spec's limits in the words of control groups, of systemd and of clauses.

Pure: which file gets which value; nothing is written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.backends.base import Row
    from crabpot.settings import Limits

PERIOD_US = 100_000
_SMALLEST_QUOTA_US = 1_000
_UNITS = (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))

# The weight of a group in cgroup v1, and its default.
SHARES, _USUAL_SHARES = "cpu.shares", 1024

# Those without which there is no limit worth the name, in the order in which they are joined.
CONTROLLERS = ("memory", "pids", "cpu")


class Setting(NamedTuple):
    """One file of one controller.

    Some kernels lack an optional one; a clause says what that means.
    """

    controller: str
    file: str
    value: str
    optional: bool = False


def version_1(limits: Limits, disk: str | None) -> Iterator[Setting]:
    """Yield the settings of cgroup v1; `disk` is the major:minor that I/O limits apply to."""
    yield Setting("memory", "memory.limit_in_bytes", str(limits.memory))
    # Memory and swap together: no swap beyond the limit. The order matters, memsw may not be below memory.
    yield Setting("memory", "memory.memsw.limit_in_bytes", str(limits.memory), optional=True)
    if limits.memory_reservation is not None:
        yield Setting("memory", "memory.soft_limit_in_bytes", str(limits.memory_reservation))
    yield Setting("pids", "pids.max", str(limits.pids))
    yield Setting("cpu", "cpu.cfs_period_us", str(PERIOD_US))
    yield Setting("cpu", "cpu.cfs_quota_us", str(quota_us(limits)))
    yield Setting("cpu", SHARES, str(limits.cpu_shares or _USUAL_SHARES))
    for rate, name in ((limits.io.read, "read"), (limits.io.write, "write")):
        if rate is not None and disk is not None:
            yield Setting("blkio", f"blkio.throttle.{name}_bps_device", f"{disk} {int(rate)}", optional=True)


def version_2(limits: Limits, disk: str | None) -> Iterator[Setting]:
    """Yield the settings of cgroup v2."""
    yield Setting("memory", "memory.max", str(limits.memory))
    yield Setting("memory", "memory.swap.max", "0", optional=True)
    if limits.memory_reservation is not None:
        yield Setting("memory", "memory.low", str(limits.memory_reservation))
    yield Setting("pids", "pids.max", str(limits.pids))
    yield Setting("cpu", "cpu.max", f"{quota_us(limits)} {PERIOD_US}")
    if limits.cpu_shares is not None:
        yield Setting("cpu", "cpu.weight", str(weight(limits.cpu_shares)))
    rates = [f"{name}={int(rate)}" for name, rate in (("rbps", limits.io.read), ("wbps", limits.io.write)) if rate]
    if rates and disk is not None:
        yield Setting("io", "io.max", " ".join((disk, *rates)), optional=True)


def scope(limits: Limits, unit: str, *, shown: str) -> list[str]:
    """Return the command that starts what follows in a scope of the user's own systemd, under these limits.

    Delegated: otherwise systemd ends the whole scope when one process of it is killed for memory. `shown` stands in
    the journal, where the whole command would be.
    """
    properties = [
        "Delegate=yes",
        f"MemoryMax={int(limits.memory)}",
        "MemorySwapMax=0",
        f"TasksMax={limits.pids}",
        f"CPUQuota={limits.cpus * 100:g}%",
    ]
    if limits.memory_reservation is not None:
        properties.append(f"MemoryLow={int(limits.memory_reservation)}")
    if limits.cpu_shares is not None:
        properties.append(f"CPUWeight={weight(limits.cpu_shares)}")
    words = [word for one in properties for word in ("-p", one)]
    command = ["systemd-run", "--user", "--scope", "--quiet", "--collect", f"--unit={unit}", f"--description={shown}"]
    return [*command, *words, "--"]


def quota_us(limits: Limits) -> int:
    """Return how long all processes together may run in each period."""
    return max(int(limits.cpus * PERIOD_US), _SMALLEST_QUOTA_US)


def weight(shares: int) -> int:
    """Convert v1 shares, 2 to 262144, to v2 weights, 1 to 10000, as container engines do."""
    return 1 + (min(max(shares, 2), 262_144) - 2) * 9_999 // 262_142


def amount(size: int) -> str:
    """Format a number of bytes for a person."""
    for unit, factor in _UNITS:
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} bytes"


def sized(limits: Limits, *, reviewed: bool) -> Iterator[Row]:
    """Yield the clauses of the limits that the runner and the mounts keep, whichever backend made them."""
    yield "limits.openFiles", "enforced", f"{limits.open_files} for each process (RLIMIT_NOFILE)"
    yield "limits.fileSize", "enforced", f"{amount(limits.file_size)} for each file (RLIMIT_FSIZE)"
    yield "limits.tmp", "enforced", f"{amount(limits.tmp)} in /tmp, and as much in /var/tmp and in /dev/shm"
    largest = f"{amount(limits.file_size)} for each file"
    total = f"{amount(limits.disk)} in the layer, which is looked at about once a second while something runs"
    unlimited = "the sum of files is not limited: this backend has no quota"
    yield "limits.disk", "degraded", f"{largest}; {total if reviewed else unlimited}"
    yield "limits.timeLimit", "enforced", f"{limits.time_limit:g} s, then the call's whole tree is killed"
