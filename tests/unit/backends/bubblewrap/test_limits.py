"""Limits in the words of control groups."""

from __future__ import annotations

import pytest

from crabpot.backends.linux import limits
from crabpot.settings import GIB, MIB, Io, Limits, Size

LIMITS = Limits(
    memory=Size(GIB),
    cpus=1.5,
    pids=50,
    memory_reservation=Size(256 * MIB),
    cpu_shares=512,
    io=Io(read=Size(MIB), write=Size(2 * MIB)),
)


def test_the_older_groups_count_memory_and_swap_together() -> None:
    settings = [(one.file, one.value) for one in limits.version_1(LIMITS, "8:0")]
    assert settings == [
        ("memory.limit_in_bytes", "1073741824"),
        ("memory.memsw.limit_in_bytes", "1073741824"),
        ("memory.soft_limit_in_bytes", "268435456"),
        ("pids.max", "50"),
        ("cpu.cfs_period_us", "100000"),
        ("cpu.cfs_quota_us", "150000"),
        ("cpu.shares", "512"),
        ("blkio.throttle.read_bps_device", "8:0 1048576"),
        ("blkio.throttle.write_bps_device", "8:0 2097152"),
    ]


def test_the_unified_groups_have_no_swap() -> None:
    settings = [(one.file, one.value) for one in limits.version_2(LIMITS, "8:0")]
    assert settings == [
        ("memory.max", "1073741824"),
        ("memory.swap.max", "0"),
        ("memory.low", "268435456"),
        ("pids.max", "50"),
        ("cpu.max", "150000 100000"),
        ("cpu.weight", "20"),
        ("io.max", "8:0 rbps=1048576 wbps=2097152"),
    ]


def test_without_a_disk_there_is_nothing_to_say_about_io() -> None:
    assert not any(one.controller in ("io", "blkio") for one in limits.version_1(LIMITS, None))
    assert not any(one.controller in ("io", "blkio") for one in limits.version_2(LIMITS, None))


def test_systemd_gets_the_same_limits_as_properties() -> None:
    command = limits.scope(LIMITS, "crabpot-1-2-x", shown="Crabpot's sandbox x")
    assert "--description=Crabpot's sandbox x" in command, "the journal would show the whole command"
    assert "Delegate=yes" in command, "systemd would end the scope when one process is killed for memory"
    assert command[:6] == ["systemd-run", "--user", "--scope", "--quiet", "--collect", "--unit=crabpot-1-2-x"]
    assert command[-1] == "--"
    assert {"MemoryMax=1073741824", "MemorySwapMax=0", "TasksMax=50", "CPUQuota=150%", "CPUWeight=20"} <= set(command)


@pytest.mark.parametrize(("shares", "weight"), [(2, 1), (1024, 39), (262_144, 10_000), (1, 1), (10**9, 10_000)])
def test_shares_become_weights_as_container_engines_do_it(shares: int, weight: int) -> None:
    assert limits.weight(shares) == weight


def test_a_sliver_of_a_cpu_is_still_some_time() -> None:
    assert limits.quota_us(Limits(cpus=0.001)) == 1000


@pytest.mark.parametrize(
    ("size", "text"), [(2 * GIB, "2 GiB"), (96 * MIB, "96 MiB"), (1536 * MIB, "1.5 GiB"), (100, "100 bytes")]
)
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert limits.amount(size) == text
