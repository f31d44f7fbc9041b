"""A gateway in a process of its own, that calls until its input ends or it is killed: one line of JSON for each answer."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).parents[3])

from tests.live.docker.live import gateway  # noqa: E402

SESSIONS = 3


async def main(folder: str, host: str, life: str) -> None:
    """Call in several sessions at once; each answer is told before the next call of its session begins."""
    made = gateway(Path(folder), host)
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    loop.add_reader(0, end)
    calling = [asyncio.create_task(_session(made, f"agent:main:{n}", life)) for n in range(SESSIONS)]
    try:
        await asyncio.wait([over, *calling], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in calling:
            task.cancel()
        await asyncio.gather(*calling, return_exceptions=True)
        await made.close()


async def _session(made: Any, session: str, life: str) -> None:
    number = 0
    while True:
        number += 1
        text = f"{life}/{session}/{number}"
        asked = [
            ("exec", {"command": f"echo {text}; sleep 0.0{number % 5}; echo {text} >&2"}),
            ("write", {"path": "kept", "content": text}),
            ("read", {"path": "kept"}),
        ]
        for tool, args in asked:
            result = await made.call(session, tool, args)
            code = None if result.error is None else result.error.code
            content = (result.data or {}).get("content")
            told = [session, text, tool, result.success, code, result.stdout, result.stderr, content]
            print(json.dumps(told), flush=True)
            if not result.success:
                # An engine that is away is not asked a thousand times.
                await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
