"""A program to count in, away from the tests' own tracing: STATE OPENINGS CALLS [TOOL]; with no tool it counts itself.

With a tool it opens sandboxes and makes that call so often in the last one, for strace to count. Without one it prints
the bytecode instructions and the wake-ups of its loop, by opening and by tool, as JSON; with "claim" as the tool, those
of so many openings that take a spare.
"""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import sys
from typing import TYPE_CHECKING, Any

from crabpot import app

if TYPE_CHECKING:
    from types import FrameType

    from crabpot.gateway import Gateway

CALLS: dict[str, dict[str, Any]] = {
    "exec": {"command": "true"},
    "read": {"path": "four"},
    "write": {"path": "four", "content": "x" * 4096},
    "ls": {},
}
CLAIM = "claim"


class Counter(selectors.EpollSelector):
    """The selector of a loop, and its thread's tracer: it knows how often the loop slept, and what ran in between."""

    wakeups = instructions = 0

    def select(self, timeout: float | None = None) -> Any:
        """Count one, and wait."""
        self.wakeups += 1
        return super().select(timeout)

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Count one, as `sys.settrace` tells it."""
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.instructions += event == "opcode"
        return self.trace

    async def count(self, gateway: Gateway, session: str, tool: str) -> dict[str, int]:
        """Count what one call takes on the loop's thread, until its result is there and until it is recorded."""
        await asyncio.sleep(0.05)  # What the last call left for later is not this one's.
        self.wakeups = self.instructions = 0
        sys.settrace(self.trace)
        try:
            result = await gateway.call(session, tool, CALLS[tool])
            on_the_way, wakeups = self.instructions, self.wakeups
            await gateway.audit.durable()
        finally:
            sys.settrace(None)
        assert result.success, result
        return {"instructions": on_the_way, "recorded": self.instructions, "wakeups": wakeups}


async def count_all(gateway: Gateway, counter: Counter, openings: int, calls: int) -> dict[str, list[dict[str, int]]]:
    """Count some openings, then some calls of each tool in the first sandbox."""
    counted = {"open": [await counter.count(gateway, f"agent:main:{n}", "exec") for n in range(openings)]}
    for tool in ("write", "exec", "read", "ls"):
        counted[tool] = [await counter.count(gateway, "agent:main:0", tool) for _ in range(calls)]
    return counted


async def count_claims(gateway: Gateway, counter: Counter, claims: int) -> dict[str, list[dict[str, int]]]:
    """Count some first calls of sessions, each once a spare waits for it."""
    gateway.execution.warm_up(gateway.settings)
    counted = []
    for number in range(claims):
        while not gateway.execution.opener.spares.count():
            await asyncio.sleep(0.01)
        counted.append(await counter.count(gateway, f"agent:main:{number}", "exec"))
    return {CLAIM: counted}


async def only_call(gateway: Gateway, openings: int, calls: int, tool: str) -> None:
    """Open some sandboxes, and call in the last of them."""
    opening = [(number, "write") for number in range(openings)]
    for number, name in [*opening, *[(openings - 1, tool)] * calls]:
        result = await gateway.call(f"agent:main:{number}", name, CALLS[name])
        assert result.success, result


async def main(counter: Counter, state: str, openings: int, calls: int, tool: str = "") -> None:
    """Count or call, and end every sandbox."""
    text = "{ agents: { defaults: { sandbox: { warm: 1 } } } }" if tool == CLAIM else "{}"
    gateway = app.start(config=None, state=state, environ=os.environ).gateway(text)
    try:
        if tool == CLAIM:
            print(json.dumps(await count_claims(gateway, counter, openings)))
        elif tool:
            await only_call(gateway, openings, calls, tool)
        else:
            print(json.dumps(await count_all(gateway, counter, openings, calls)))
    finally:
        await gateway.close()


if __name__ == "__main__":
    selector = Counter()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(main(selector, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
