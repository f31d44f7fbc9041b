"""Attacks on the gateway's own time and memory, and on what the whole machine shares."""

from __future__ import annotations

import asyncio
import os
import pty
from typing import TYPE_CHECKING

from crabpot.proof.verify import witness
from crabpot.proof.verify.claims import Group, Outcome

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("resources")

_MIB = 1024**2
_GATEWAY_MAY_GROW = 96 * _MIB


@claim.about(threats=("exhaustion",))
async def cannot_flood_the_gateway_with_output(target: Target) -> Outcome:
    """10 GB of output: both ends are kept, the rest is dropped, and the flood is ended."""
    before = witness.memory_bytes()
    running = asyncio.create_task(target.shell("head -c 10000000000 /dev/zero", timeout_s=30.0))
    neighbour = await target.other.answers()
    result = await running
    grown = witness.memory_bytes() - before
    kept = len(result.stdout)
    ended = result.error.code if result.error else f"exit code {result.exit_code}"
    return Outcome(
        held=kept <= 2 * target.limits.output and grown < _GATEWAY_MAY_GROW and not result.success and neighbour,
        tried="printed 10 GB",
        came_back=f"{ended}; {kept} bytes were kept; the gateway grew by {max(grown, 0) // _MIB} MiB; "
        f"neighbour {'answered meanwhile' if neighbour else 'DID NOT ANSWER'}",
    )


@claim.about(threats=("exhaustion",))
async def cannot_flood_the_gateway_with_a_streams_worth_of_errors(target: Target) -> Outcome:
    """The same on the other stream, in one endless line, and in bytes that are not text."""
    before = witness.memory_bytes()
    result = await target.shell("head -c 10000000000 /dev/zero | tr '\\0' '\\377' >&2", timeout_s=30.0)
    grown = witness.memory_bytes() - before
    ended = result.error.code if result.error else f"exit code {result.exit_code}"
    # Each such byte becomes a replacement character, so characters are counted, not bytes.
    return Outcome(
        held=len(result.stderr) <= 2 * target.limits.output and grown < _GATEWAY_MAY_GROW and not result.success,
        tried="printed 10 GB of 0xFF to standard error",
        came_back=f"{ended}; {len(result.stderr)} characters kept; the gateway grew by {max(grown, 0) // _MIB} MiB",
    )


@claim.about("limits.timeLimit", threats=("exhaustion",))
async def cannot_run_longer_than_its_time_limit(target: Target) -> Outcome:
    """Forked twice, in a session of its own, deaf to TERM: gone when the limit is over."""
    marker = f"long-{target.bait.token}"
    loop = asyncio.get_running_loop()
    began = loop.time()
    command = (
        f"trap '' TERM; (setsid sh -c 'trap \"\" TERM HUP; sleep 1000; sleep 1000' {marker} &); sleep 1000; sleep 1000"
    )
    result = await target.shell(command, timeout_s=1.0)
    took = loop.time() - began
    gone = await witness.within(5.0 * target.pace, lambda: not witness.processes_with(marker))
    code = result.error.code if result.error else f"exit code {result.exit_code}"
    return Outcome(
        # The limit, its grace, and a busy machine.
        held=code == "timeout" and took < 1.0 + 5.0 * target.pace and gone,
        tried="ignored TERM in a tree of sleepers, with a limit of 1 s",
        came_back=f"{code} after {took:.1f} s; {'nothing is left' if gone else 'processes ARE LEFT'}",
    )


@claim.about(threats=("exhaustion",), excused_by="limits.cpus")
async def cannot_take_more_of_the_processor_than_its_share(target: Target) -> Outcome:
    """One busy process for each core, and a few more."""
    cpus = target.limits.cpus
    outcome = await target.attack(
        """
import signal, time
workers = []
began = time.monotonic()
for _ in range(given["workers"]):
    child = os.fork()
    if child == 0:
        while time.monotonic() < began + 1.5:
            pass
        os._exit(0)
    workers.append(child)
used = 0.0
for child in workers:
    _, _, usage = os.wait4(child, 0)
    used += usage.ru_utime + usage.ru_stime
share = used / (time.monotonic() - began)
shown = "%.2f processors of %.2f" % (share, given["cpus"])
expect("keep %d workers busy" % len(workers), share <= given["cpus"] * 1.2 + 0.05, shown)
""",
        workers=min((os.cpu_count() or 1) + 2, 8),
        cpus=cpus,
    )
    if cpus >= (os.cpu_count() or 1):
        came_back = f"{outcome.came_back}; the limit is all of this machine"
        return Outcome(held=outcome.held, tried=outcome.tried, came_back=came_back)
    return outcome


@claim.about("limits.openFiles", threats=("exhaustion",))
async def cannot_use_up_the_terminals_of_the_host(target: Target) -> Outcome:
    """Pseudo-terminals are counted for the whole machine."""
    report = await target.python("""
held, stopped = [], None
try:
    while len(held) < 600:
        held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as error:
    stopped = errno.errorcode[error.errno]
expect("open terminals without end", stopped is not None and len(held) < 600, "%s after %d" % (stopped, len(held)))
""")
    pair = pty.openpty()
    for fd in pair:
        os.close(fd)
    return Outcome(
        held=report.got is None,
        tried=report.tried,
        came_back=f"{report.got or report.refused}; the host still opens one",
    )


@claim.about(threats=("exhaustion",))
async def cannot_start_more_background_processes_than_are_kept(target: Target) -> Outcome:
    """Each of them costs the runner memory for its output."""
    started: list[str] = []
    refused = ""
    for _ in range(40):
        result = await target.call("exec", command="exec sleep 600", background=True)
        if not result.success or result.data is None:
            refused = result.error.code if result.error else "no reason"
            break
        started.append(str(result.data["process"]))
    await target.stop()
    return Outcome(
        held=refused == "process_limit" and await target.answers(),
        tried="started 40 background processes",
        came_back=f"{refused or 'none was refused'} after {len(started)}",
    )
