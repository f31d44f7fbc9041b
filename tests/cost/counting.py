"""Count what noise cannot change: bytecode instructions, wake-ups, system calls, imported modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GATEWAY_PROGRAM = str(Path(__file__).with_name("counted_gateway.py"))
DOORS_PROGRAM = str(Path(__file__).with_name("counted_doors.py"))
RUNNER_PROGRAM = str(Path(__file__).with_name("traced_runner.py"))
START_PROGRAM = str(Path(__file__).with_name("counted_start.py"))
SEARCH_PROGRAM = str(Path(__file__).with_name("counted_search.py"))
_PATIENCE_S = 120
# How often threads wait for each other, and how many records the log's own thread writes at once, is chance. SQLite asks
# for its process id once a batch, so an idle machine, where each record is a batch of its own, would count one more.
_BY_CHANCE = ("futex", "restart_syscall", "pread64", "pwrite64", "fdatasync", "fcntl", "getpid", "sched_yield")
# Other versions compile the same source to somewhat more or fewer instructions.
INSTRUCTIONS_MARGIN = 0.03 if sys.version_info[:2] == (3, 11) else 0.3


def check(what: str, counted: float, most: int, *, margin: float = 0.03) -> None:
    """Fail where more was counted than is written down. What became cheaper is for the author to write down."""
    allowed = most * (1 + margin)
    assert counted <= allowed, (
        f"{what} costs {counted:g} now, and {most} is written down (with the margin {allowed:g}): take the new cost "
        "off the path or, where it is worth it, write the new number down in the test"
    )


def fewest(count: Callable[[], float], tries: int = 3) -> float:
    """Count again and again: where threads meet, a wait more or less is theirs, and never makes it fewer."""
    return min(count() for _ in range(tries))


def counted_in_gateway(state: Path, openings: int, calls: int, *tool: str) -> dict[str, list[dict[str, int]]]:
    """Return what each opening and each call cost in a gateway of its own process."""
    program = [sys.executable, GATEWAY_PROGRAM, str(state), str(openings), str(calls), *tool]
    done = subprocess.run(program, stdout=subprocess.PIPE, timeout=_PATIENCE_S, check=True)
    counted: dict[str, list[dict[str, int]]] = json.loads(done.stdout)
    return counted


def counted_by_doors(state: Path, calls: int) -> dict[str, int]:
    """Return what a call costs at least by each door into a gateway of its own process."""
    program = [sys.executable, DOORS_PROGRAM, str(state), str(calls)]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(program, env=environ, stdout=subprocess.PIPE, timeout=_PATIENCE_S, check=True)
    counted: dict[str, int] = json.loads(done.stdout)
    return counted


def system_calls_of(argv: Sequence[str], **how: Any) -> Counter[str]:
    """Run a program to its end, and count the system calls of all of its processes by their names.

    `how` is for subprocess.run: its user and environment.
    """
    with tempfile.TemporaryDirectory(prefix="crabpot-test-") as folder:
        os.chmod(folder, 0o777)  # Whoever runs it writes there.
        table = Path(folder) / "calls"
        strace = ["strace", "-f", "-qq", "-c", "-U", "name,calls", "-o", str(table)]
        done = subprocess.run([*strace, *argv], capture_output=True, text=True, timeout=_PATIENCE_S, check=False, **how)
        assert done.returncode == 0, done.stderr[-2000:]
        rows = [line.split() for line in table.read_text(encoding="utf-8").splitlines()]
    counted = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
    return Counter({name: number for name, number in counted.items() if name not in ("total", *_BY_CHANCE)})


def modules_of(argv: Sequence[str], environ: dict[str, str] | None = None) -> set[str]:
    """Run a Python program, and name the modules that it imports beyond those of every start."""
    done = subprocess.run(
        telling_imports(argv),
        env=environ,
        input="",
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return imports_told(done.stderr)


def compiled_by(argv: Sequence[str], environ: dict[str, str]) -> int:
    """Run a Python program of one's own file, and return how many texts it compiles."""
    program = next(number for number, word in enumerate(argv) if word.endswith(".py"))
    counted = [*argv[:program], START_PROGRAM, *argv[program:]]
    done = subprocess.run(counted, env=environ, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
    return int(done.stderr.rpartition("compiled: ")[2])


def telling_imports(argv: Sequence[str]) -> list[str]:
    """Have a Python program tell on standard error what it imports."""
    return [argv[0], "-X", "importtime", *argv[1:]]


def imports_told(text: str) -> set[str]:
    """Return the modules that were told of beyond those of every start."""
    told = (line for line in text.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in told} - _imported_by_every_start()


@cache
def _imported_by_every_start() -> frozenset[str]:
    bare = telling_imports([sys.executable, "-I", "-S", "-c", ""])
    told = subprocess.run(bare, capture_output=True, text=True, timeout=_PATIENCE_S, check=True).stderr
    return frozenset(line.rpartition("|")[2].strip() for line in told.splitlines())
