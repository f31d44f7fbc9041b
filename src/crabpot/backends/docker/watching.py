"""Start the watchdog: one for each engine that this process has containers on, for as long as the process lives."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from crabpot.backends.docker import owner
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from crabpot.backends.docker.engine import Engine

_START_S = 30.0
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "watchdog.py")

# The write end of each watchdog's pipe, by engine and process: a forked child must start its own. Closed only by the
# end of the process; one serves all gateways of a process, because the process owns their containers.
_PIPES: dict[tuple[str, int], int] = {}


async def ensure(engine: Engine) -> None:
    """Start the watchdog unless it runs; no container is made before."""
    key = (engine.path, os.getpid())
    if key in _PIPES:
        return
    reader, writer = os.pipe2(os.O_CLOEXEC)
    _PIPES[key] = writer
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", _PROGRAM, engine.path, engine.version, owner.own()],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
        # It detaches and leaves its first process for us to reap.
        _, said = await asyncio.to_thread(process.communicate, timeout=_START_S)
        if process.returncode != 0:
            os.close(_PIPES.pop(key))
            words = said.decode("utf-8", "replace").strip()[-500:]
            raise SandboxUnavailable(f"the watchdog of docker's sandboxes did not start: {words}")
    except (OSError, subprocess.TimeoutExpired) as error:
        os.close(_PIPES.pop(key))
        raise SandboxUnavailable(f"the watchdog of docker's sandboxes did not start: {error}") from None
    finally:
        os.close(reader)
