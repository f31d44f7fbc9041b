"""Attacks on memory. Each is bounded: it stops a quarter above the limit that should stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.proof.verify import witness
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome
from crabpot.proof.verify.programs import read_report

if TYPE_CHECKING:
    from crabpot.model import ToolResult
    from crabpot.proof.verify.target import Target

claim = Group("resources")

_MIB = 1024**2
# Above this an attack that works would hurt the host; limits.memory must be smaller to be tried.
_MOST_MEMORY = 4096 * _MIB
_KILLED = 128 + 9


def _hog(target: Target) -> dict[str, Any]:
    limit = int(target.limits.memory)
    if limit > _MOST_MEMORY or witness.free_memory_bytes() < limit * 2:
        raise NotCarriedOut(f"limits.memory is {limit // _MIB} MiB, too much to try on this machine; lower it")
    return {"limit": limit, "most": limit + max(limit // 4, 64 * _MIB)}


_BIG = """
import mmap
def take(size):
    try:
        block = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return None
    for at in range(0, size, 4096):
        block[at] = 1
    return block
def had_it_all():
    print("beyond", flush=True)
    os._exit(0)
"""


def _was_stopped(result: ToolResult) -> bool:
    """Return whether it was killed for memory or got an error for it; a program that failed was not stopped."""
    if result.error is not None:
        return result.error.code in ("memory_limit", "sandbox_lost")
    return result.exit_code == _KILLED or "MemoryError" in result.stderr or '"got": null' in result.stdout


async def _memory(target: Target, source: str, tried: str) -> Outcome:
    bounds = _hog(target)
    result = await target.program(_BIG + source, timeout_s=30.0, **bounds)
    neighbour, again = await target.other.answers(), await target.answers()
    beyond = result.stdout.strip() == "beyond"
    ended = f"{result.error.code}: {result.error.message}" if result.error else f"exit code {result.exit_code}"
    if result.error is None and result.exit_code == 0 and not beyond:
        ended = read_report(result).refused
    if not beyond and not _was_stopped(result):
        raise NotCarriedOut(f"the hog ended otherwise: {ended}, {result.stdout[:100]!r} {result.stderr[-200:]!r}")
    return Outcome(
        held=not beyond and neighbour and again,
        tried=f"{tried}, up to {bounds['most'] // _MIB} MiB with a limit of {bounds['limit'] // _MIB} MiB",
        came_back=f"{'IT HAD ALL OF THAT' if beyond else ended}; neighbour {'answers' if neighbour else 'IS GONE'}; "
        f"next call {'answered' if again else 'FAILED'}",
    )


@claim.about(threats=("exhaustion",), excused_by="limits.memory")
async def cannot_take_more_memory_than_its_limit(target: Target) -> Outcome:
    """One process, one piece after the other, every page touched."""
    source = """
kept = []
while len(kept) * (8 << 20) < given["most"]:
    kept.append(take(8 << 20))
    if kept[-1] is None:
        break
else:
    had_it_all()
expect("take memory", True, "refused after %d MiB" % (8 * (len(kept) - 1)))
"""
    return await _memory(target, source, "took memory piece by piece")


@claim.about(threats=("exhaustion",), excused_by="limits.memory")
async def cannot_take_more_memory_than_its_limit_by_many_processes(target: Target) -> Outcome:
    """A limit on each process is no limit on all of them."""
    source = """
import signal
children = {}
for _ in range(8):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        kept = take(given["most"] // 8)
        os.write(writer, b"n" if kept is None else b"y")
        signal.pause()
    os.close(writer)
    children[child] = reader
had = [os.read(reader, 1) for reader in children.values()]
# One that had its part may have been killed to make room for another's.
alive = [child for child in children if os.waitpid(child, os.WNOHANG) == (0, 0)]
for child in alive:
    os.kill(child, signal.SIGKILL)
if had == [b"y"] * 8 and len(alive) == 8:
    had_it_all()
shown = "%d had their part, %d were alive in the end" % (had.count(b"y"), len(alive))
expect("take memory in 8 processes", True, shown)
"""
    return await _memory(target, source, "took memory in 8 processes at once")


@claim.about(threats=("exhaustion",), excused_by="limits.memory")
async def cannot_hide_memory_in_files_without_a_name(target: Target) -> Outcome:
    """Pages of memfd_create belong to no process, and to no per-process limit."""
    source = """
size, held = 0, []
piece = b"x" * (1 << 20)
try:
    while size < given["most"]:
        if size % (16 << 20) == 0:
            held.append(os.memfd_create("hidden"))
        size += os.write(held[-1], piece)
    had_it_all()
except OSError as error:
    expect("fill files in memory", True, "%s after %d MiB" % (errno.errorcode[error.errno], size >> 20))
"""
    return await _memory(target, source, "wrote to files without a name")
