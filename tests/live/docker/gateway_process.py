"""A gateway in a process of its own, to be killed: opens a sandbox for each name, says so, and waits for its death."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[3])

from tests.live.docker.live import gateway  # noqa: E402


async def main(folder: str, host: str, *commands: str) -> None:
    """Run one command in each sandbox; those that do not come back are not waited for."""
    made = gateway(Path(folder), host)
    sessions = [f"agent:main:{number}" for number in range(len(commands))]
    for session in sessions:
        result = await made.call(session, "exec", {"command": "true"})
        assert result.success, result.error
    tasks = [asyncio.create_task(made.call(s, "exec", {"command": c})) for s, c in zip(sessions, commands, strict=True)]
    await asyncio.wait(tasks, timeout=1.0)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
