"""Attacks on the gateway by a runner that has turned: killed, stopped, or another program in its place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabpot.verify.claims import Group, Outcome

if TYPE_CHECKING:
    from crabpot.verify.target import Target

claim = Group("gateway under a hostile runner")


@claim.about("sandbox", threats=("hostile-runner", "shared-uid"))
async def harms_only_itself_by_killing_the_runner(target: Target) -> Outcome:
    """The runner shares its uid with what it runs: it may be killed, and then only this sandbox is lost."""
    killed = await target.shell("kill -KILL $PPID; kill -TERM $PPID; kill -HUP $PPID; sleep 3", timeout_s=5.0)
    neighbour, again = await target.other.answers(), await target.answers()
    ended = killed.error.code if killed.error else f"exit code {killed.exit_code}"
    answers = f"neighbour {'answers' if neighbour else 'IS GONE'}, next call {'answered' if again else 'FAILED'}"
    return Outcome(
        held=neighbour and again and not killed.success,
        tried="sent KILL, TERM and HUP to the runner",
        came_back=f"that call: {ended}; {answers}",
    )


@claim.about("limits.timeLimit", threats=("hostile-runner",))
async def cannot_hold_the_gateway_by_stopping_the_runner(target: Target) -> Outcome:
    """A runner that never answers again must not keep a call open for ever."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    stopped = await target.shell("kill -STOP $PPID; sleep 600", timeout_s=1.0)
    took = loop.time() - began
    neighbour, again = await target.other.answers(), await target.answers()
    ended = stopped.error.code if stopped.error else f"exit code {stopped.exit_code}"
    return Outcome(
        held=took < 12.0 and stopped.error is not None and neighbour and again,  # noqa: PLR2004  limit, grace and end
        tried="stopped the runner in a call with a time limit of 1 s",
        came_back=f"{ended} after {took:.1f} s; neighbour {'answers' if neighbour else 'IS GONE'}, "
        f"next call {'answered' if again else 'FAILED'}",
    )
