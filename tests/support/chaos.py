"""Gateways that call without end while others kill them, and the judgement of every answer that they got.

Also the program of such a gateway: one line of JSON for each answer, until its input ends or it is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import crabpot

SESSIONS = 3
# Their sandboxes are known by it among others.
SESSION = "chaos-"
LOST = ("sandbox_lost", "sandbox_unavailable")


class Callers:
    """The gateways that came one after the other over one state, and what they were told."""

    def __init__(self, text: str, state: Path, environ: dict[str, str], *, durable: bool = True) -> None:
        """Start the first. Files that are not `durable` die with their sandbox: they may be gone, and never be old."""
        self.durable = durable
        self._words = (text, str(state))
        self._environ = environ
        self.lives = 0
        self.answers: list[list[Any]] = []
        self.wrong: list[list[Any]] = []
        self.kept: dict[str, set[str | None]] = {}
        self.process = self.start()

    @property
    def right(self) -> int:
        """Return how many calls succeeded."""
        return sum(1 for told in self.answers if told[3])

    def start(self) -> subprocess.Popen[str]:
        """Start the next gateway."""
        self.lives += 1
        # The package's own folder, and not this one's, where `tests` is.
        folders = [str(Path(crabpot.__file__).parents[1]), str(Path(__file__).parents[2])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.chaos", *self._words, str(self.lives)],
            env={
                "PYTHONPATH": os.pathsep.join(folders),
                "PATH": "/usr/bin:/bin",
                "PYTHONDONTWRITEBYTECODE": "1",
                **self._environ,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.hearing = threading.Thread(target=self._hear, args=(self.process,))
        self.hearing.start()
        return self.process

    def _hear(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                # A gateway that is killed may not have finished its last one.
                if line.endswith("\n"):
                    self.answers.append(told := json.loads(line))
                    if not self._is_right(*told):
                        self.wrong.append(told)

    async def kill(self) -> None:
        """Kill the gateway, and start the next."""
        self.process.kill()
        await asyncio.to_thread(self.end)
        self.start()

    def end(self) -> int:
        """Let the gateway end in order, or not, and hear all that it said; give its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            self.hearing.join()

    def _is_right(  # noqa: PLR0913, PLR0917  one answer
        self, session: str, text: str, tool: str, success: Any, code: str, stdout: str, stderr: str, content: str | None
    ) -> bool:
        """Judge an answer: what was asked for, or that the sandbox failed; a file holds what was last written to it.

        One that nobody is known to have written may not be there, which is None here.
        """
        kept = self.kept.setdefault(session, {None})
        if tool == "write":
            # One that was lost may have been done, or not.
            kept |= {text}
        if not success:
            known = LOST if tool != "read" or None not in kept else (*LOST, "not_found")
            return code in known and (stdout, stderr, content) == ("", "", None)
        if tool == "exec":
            return (stdout, stderr) == (f"{text}\n", f"{text}\n")
        if tool == "write":
            kept &= {text} if self.durable else {text, None}
            return True
        return content in kept


async def main(text: str, state: str, life: str) -> None:
    """Call in several sessions at once; each answer is told before the next call of its session begins."""
    from tests.support.suites import open_gateway

    made = open_gateway(text, state)
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    loop.add_reader(0, end)
    calling = [asyncio.create_task(_session(made, f"agent:main:{SESSION}{n}", life)) for n in range(SESSIONS)]
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
                # What is away is not asked a thousand times.
                await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
