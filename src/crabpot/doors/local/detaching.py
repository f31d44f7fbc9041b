"""Start a gateway that outlives its caller, and shares nothing with it: no session, no terminal, no descriptor."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from crabpot.sandboxes.callers import brought

if TYPE_CHECKING:
    from crabpot.app import App
    from crabpot.settings import Settings

LOG_NAME = "gateway.log"
# A machine that is busy; a gateway that cannot start ends, which is noticed at once.
_START_S = 60.0
# Those of a service that happens to call us are not for the gateway.
_NOT_OURS = ("LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")


async def start(app: App, settings: Settings) -> bool:
    """Start a gateway on this state folder, and return whether it is ready."""
    reading, writing = os.pipe()
    try:
        # It writes one byte when it is ready, and then closes its end: a caller waits for the end of no pipe of ours.
        starting = _spawn(app, settings, writing)
        os.close(writing)
        writing = -1
        ready = await _first_byte(reading)
        starting.wait()
        return ready
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def _spawn(app: App, settings: Settings, ready: int) -> subprocess.Popen[bytes]:
    state = app.around.state
    config = () if app.config is None else ("--config", app.config)
    left_out = {*brought(settings), *_NOT_OURS}
    how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    log = os.open(os.path.join(state, LOG_NAME), how, 0o600)
    try:
        return subprocess.Popen(
            [
                *(sys.executable, *(("-I",) if sys.flags.isolated else ()), "-m", "crabpot"),
                *("--state", state, *config, "serve", "--lingering", str(ready)),
            ],
            env={name: value for name, value in app.environ.items() if name not in left_out},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(ready,),
            start_new_session=True,
        )
    finally:
        os.close(log)


async def _first_byte(fd: int) -> bool:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await asyncio.wait_for(readable.wait(), _START_S)
        return bool(os.read(fd, 1))
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(fd)


def leave_the_caller() -> None:
    """Become nobody's child, without a terminal and unable to get one: the process that was started ends here."""
    if os.fork():
        os._exit(0)
