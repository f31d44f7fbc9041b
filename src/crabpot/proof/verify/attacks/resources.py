"""Attacks on limited resources. Each is bounded: it stops soon after the limit that should stop it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from crabpot.proof.verify import witness
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome
from crabpot.proof.verify.programs import read_report

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("resources")

_MIB = 1024**2
# Above this an attack that works would hurt the host; limits.disk must be smaller to be tried.
_MOST_DISK = 1024 * _MIB
_PATIENCE_S = 10.0
_LOOK_S = 0.05
_BOMB_S = (2.0, 8.0)


@claim.about(threats=("exhaustion",), excused_by="limits.pids")
async def cannot_start_more_processes_than_its_limit(target: Target) -> Outcome:
    """Process ids are the host's; without free ones not even a person can log in to help."""
    return await target.attack(
        """
import signal
children, stopped = [], None
while len(children) <= given["limit"] + 50 and stopped is None:
    try:
        child = os.fork()
    except OSError as error:
        stopped = errno.errorcode[error.errno]
        break
    if child == 0:
        signal.pause()
        os._exit(0)
    children.append(child)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
expect("fork without end", stopped is not None and len(children) <= given["limit"],
       "%s after %d of at most %d" % (stopped, len(children), given["limit"]))
""",
        limit=target.limits.pids,
    )


@claim.about(threats=("exhaustion",), excused_by="limits.pids")
async def cannot_start_more_threads_than_its_limit(target: Target) -> Outcome:
    """A thread takes a process id too."""
    return await target.attack(
        """
import threading
done, started, stopped = threading.Event(), 0, None
threading.stack_size(64 << 10)
while started <= given["limit"] + 50:
    try:
        threading.Thread(target=done.wait, daemon=True).start()
    except RuntimeError as error:
        stopped = str(error)
        break
    started += 1
done.set()
held = stopped is not None and started <= given["limit"]
expect("start threads without end", held, "%s after %d" % (stopped, started))
""",
        limit=target.limits.pids,
    )


@claim.about("limits.timeLimit", threats=("exhaustion",), excused_by="limits.pids")
async def harms_nobody_by_a_fork_bomb(target: Target) -> Outcome:
    """Copies that make copies, in sessions of their own: the neighbour answers, the call ends, nothing is left."""
    if not await target.answers():
        raise NotCarriedOut("the sandbox did not answer before the bomb")
    # Where starting programs is slower still than the interpreter was, the first one may be cut before it goes off.
    for usual_s in _BOMB_S:
        outcome = await _bomb(target, target.paced(usual_s))
        if outcome is not None:
            return outcome
    raise NotCarriedOut("the bomb never went off")


async def _bomb(target: Target, time_s: float) -> Outcome | None:
    """Set one off; return None if it made too few copies to have tried the limit."""
    # A number of seconds that nobody else sleeps for, by which the copies are found again.
    marker = f"600.{int(target.bait.token, 16)}"
    # Each copy makes two more and stays; as many levels as make eight times the limit, and no more.
    levels = min((8 * target.limits.pids).bit_length(), 12)
    copy = 'if [ $1 -gt 0 ]; then for _ in 1 2; do setsid sh -c "$B" "$0" $(($1 - 1)) & done; fi; exec sleep "$0"'
    bomb = f"export B='{copy}'; sh -c \"$B\" {marker} {levels}"
    running = asyncio.create_task(target.shell(bomb, timeout_s=time_s))
    await witness.within(0.75 * time_s, lambda: len(witness.processes_with(marker)) >= target.limits.pids // 2)
    neighbour = await target.other.answers()
    reached = 0
    while not running.done():
        reached = max(reached, len(witness.processes_with(marker)))
        await asyncio.sleep(_LOOK_S)
    result = await running
    gone = await witness.within(_PATIENCE_S * target.pace, lambda: not witness.processes_with(marker))
    again = await target.answers()
    if reached < target.limits.pids // 2 and "fork" not in result.stderr.lower():
        return None
    ended = result.error.code if result.error else f"exit code {result.exit_code}"
    return Outcome(
        held=reached <= target.limits.pids and neighbour and gone and again,
        tried=f"a shell whose copies make two copies each, for {time_s:.0f} s",
        came_back=f"{ended}, {reached} processes; neighbour {'answered meanwhile' if neighbour else 'DID NOT ANSWER'}; "
        f"{'nothing is left' if gone else 'processes ARE LEFT'}; next call {'answered' if again else 'FAILED'}",
    )


@claim.about("limits.fileSize", threats=("exhaustion",))
async def cannot_write_a_file_larger_than_its_limit(target: Target) -> Outcome:
    """By writing, by leaving a hole, by setting the length."""
    return await target.attack(
        """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = given["limit"]
path = "/workspace/.large"
held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
attempt("write behind a hole of %d bytes" % limit, lambda: os.pwrite(held, b"x", limit) and "written")
attempt("set the length to %d" % (limit + 1), lambda: os.ftruncate(held, limit + 1) or "set")
attempt("reserve %d bytes" % (limit + 1), lambda: os.posix_fallocate(held, 0, limit + 1) or "reserved")
os.unlink(path)
""",
        limit=int(target.limits.file_size),
    )


@claim.about(threats=("exhaustion",), excused_by="limits.disk")
async def cannot_fill_the_disk(target: Target) -> Outcome:
    """Many files, each of a size that is allowed."""
    limit = int(target.limits.disk)
    if limit > _MOST_DISK:
        raise NotCarriedOut(f"limits.disk is {limit // _MIB} MiB, too much to try here; lower it for the test")
    most = limit + max(limit // 4, 16 * _MIB)
    source = """
folder = "/workspace/.flood"
os.makedirs(folder, exist_ok=True)
size, piece, stopped = 0, os.urandom(1 << 20), None
try:
    while size < given["most"]:
        with open("%s/%d" % (folder, size), "wb", buffering=0) as stream:
            size += stream.write(piece)
    os.sync()
except OSError as error:
    stopped = errno.errorcode[error.errno]
expect("fill the workspace", stopped is not None and size <= given["limit"], "%s after %d MiB" % (stopped, size >> 20))
"""
    result = await target.program(source, timeout_s=60.0, limit=limit, most=most)
    left = await asyncio.to_thread(_size_below, target.spec.layer or target.spec.workspace)
    neighbour = await target.other.answers()
    await target.shell("rm -rf /workspace/.flood")
    # A layer that holds too much is opened by nobody until a person decides.
    await target.discard()
    if result.error is not None and result.error.code == "disk_limit":
        stopped, ended = True, f"{result.error.code}: {result.error.message}"
    else:
        report = read_report(result)
        stopped, ended = report.got is None, report.got or report.refused
    return Outcome(
        held=stopped and left < most and neighbour,
        tried=f"wrote files up to {most // _MIB} MiB with a limit of {limit // _MIB} MiB",
        came_back=f"{ended}; {left // _MIB} MiB were there; neighbour {'answers' if neighbour else 'IS GONE'}",
    )


def _size_below(folder: str) -> int:
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(place, name)).st_blocks * 512
            except OSError:
                continue
    return size


@claim.about("limits.openFiles", threats=("exhaustion",))
async def cannot_open_more_files_than_its_limit(target: Target) -> Outcome:
    """Open files take the host's memory, and their number is limited."""
    return await target.attack(
        """
held, stopped = [], None
try:
    while len(held) <= given["limit"] + 10:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    stopped = errno.errorcode[error.errno]
for fd in held:
    os.close(fd)
few = stopped is not None and len(held) <= given["limit"]
expect("open files without end", few, "%s after %d" % (stopped, len(held)))
""",
        limit=target.limits.open_files,
    )
