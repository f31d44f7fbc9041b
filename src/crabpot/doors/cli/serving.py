"""`serve`: one gateway for many clients, until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

from crabpot.doors import sandboxes, tools
from crabpot.doors import serve as door
from crabpot.doors.cli.approving import Queue
from crabpot.doors.cli.frame import OK
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.gateway import Gateway

_SWEEP_S = 60.0


def serve(frame: Frame, _options: Namespace) -> int:
    """Keep a gateway alive until a signal ends it."""
    asyncio.run(_serve(frame.app()))
    return OK


async def _serve(app: App) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    gateway = app.gateway()
    gateway.desk.attach(Queue(app.around.state))

    async def inquire(name: str, args: dict[str, Any]) -> Any:
        return await _inquire(gateway, name, args)

    try:
        async with door.serve(gateway, app.around.state, inquire, config=app.config) as path:
            gateway.execution.warm_up(gateway.settings)
            print(f"crabpot serves on {path}; end it with Ctrl-C", flush=True)
            while not ended.is_set():
                await sandboxes.sweep(gateway)
                try:
                    await asyncio.wait_for(ended.wait(), _SWEEP_S)
                except TimeoutError:
                    continue
    finally:
        await gateway.close()


async def _inquire(gateway: Gateway, name: str, args: dict[str, Any]) -> Any:
    if name == "tools":
        return tools.offered(gateway, str(args.get("session")))
    if name == "live":
        return sandboxes.live(gateway)
    if name == "stop":
        return await sandboxes.stop(gateway, str(args.get("scope_key")))
    if name == "prune":
        return await sandboxes.sweep(gateway)
    raise CrabpotError(f"no inquiry is called {name!r}")
