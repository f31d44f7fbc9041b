"""`e2b`: where programs written for the E2B SDKs find this gateway."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from crabpot.decide import sessions
from crabpot.doors.cli.frame import OK, UsageError, note
from crabpot.doors.local.client import connect
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.doors.local.client import RemoteGateway

_READY_S, _POLL_S = 60.0, 0.1


def e2b(frame: Frame, options: Namespace) -> int:
    """Print the environment that leads the SDKs to a gateway, which is started if none runs."""
    app = frame.app()
    # What does not load is said here: the gateway is started without a word.
    app.settings()
    agent = options.agent.lower()
    if not sessions.is_agent_id(options.agent):
        raise UsageError(f"--agent {options.agent!a} cannot be an agent's id; use lower-case letters, digits, _ and -")
    url, key = asyncio.run(_opened(app, frame, agent))
    values = {"E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_API_KEY": key}
    if options.print_env:
        print("export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items()))
        return OK
    print(f"E2B API on {url}, for sandboxes of the agent {agent}. For programs that use the E2B SDKs:")
    print("  eval $(crabpot e2b --print-env)")
    return OK


async def _opened(app: App, frame: Frame, agent: str) -> tuple[str, str]:
    from crabpot.doors.e2b.door import api_key  # noqa: PLC0415  it takes a second to import

    state = app.around.state
    remote = await _serving(state) or await _started(state, frame)
    try:
        answer = await remote.inquire("e2b")
    finally:
        await remote.close()
    return str(answer["url"]), api_key(state, agent)


async def _serving(state: str) -> RemoteGateway | None:
    """Connect to a gateway of `crabpot serve`; one that lingers has no doors but the command line's."""
    remote = await connect(state)
    if remote is None or (await remote.inquire("gateway"))["lingers_s"] is None:
        return remote
    await remote.close()
    return None


async def _started(state: str, frame: Frame) -> RemoteGateway:
    """Start `crabpot serve`, which goes on without this program, and takes over from one that lingers."""
    place = [] if frame.config is None else ["--config", os.path.abspath(frame.config)]
    server = subprocess.Popen(
        # -P, and not here: an agent may have put a module of our name into the current folder.
        [sys.executable, "-P", "-m", "crabpot", *place, "--state", os.path.abspath(state), "serve"],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    async with asyncio.timeout(_READY_S):
        while server.poll() is None:
            if (remote := await _serving(state)) is not None:
                note(f"started crabpot serve, process {server.pid}; kill {server.pid} ends it and its sandboxes")
                return remote
            await asyncio.sleep(_POLL_S)
    raise CrabpotError("the gateway could not be started; see what crabpot serve says")
