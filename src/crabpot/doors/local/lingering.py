"""The gateway that a first call leaves behind: it serves the same user's next calls, and ends when idle."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import crabpot
from crabpot.doors import inquiries, sandboxes
from crabpot.doors.late_import import imported
from crabpot.doors.local.connection import load_mcp
from crabpot.doors.local.identity import SOCKET_NAME, digest, of_code, surroundings
from crabpot.doors.local.server import Door, fingerprint
from crabpot.doors.shutdown import Shutdown
from crabpot.sandboxes.callers import brought
from crabpot.scheduling.threads import FairThreads, go_first
from crabpot.settings import Duration

if TYPE_CHECKING:
    from crabpot.app import App
    from crabpot.approvals.requests import Answer, Request
    from crabpot.gateway import Gateway

_LOOK_S, _SWEEP_S = 1.0, 60.0


class _Elsewhere:
    """The approver of a gateway without a terminal: its callers ask on theirs, and anybody by `approvals`."""

    async def ask(self, _request: Request) -> Answer | None:
        """Wait until somebody has answered."""
        await asyncio.Event().wait()
        return None


async def linger(app: App, ready: int) -> None:
    """Serve until idle for `gateway.linger`; tell the descriptor `ready` once that begins."""
    asyncio.get_running_loop().set_default_executor(FairThreads(initializer=go_first))
    # Before it is read: a gateway must not be taken for one of a later configuration.
    written = fingerprint(app.config)
    settings = app.settings()
    gateway = app.with_callers(brought(settings)).gateway(settings=settings)
    made = Lingering(app, gateway, config=written, linger_s=app.linger(settings))
    made.shutdown.listen()
    made.shutdown.last_words = gateway.audit.close
    gateway.desk.attach(_Elsewhere())
    stays = Duration(app.linger(settings)).written()
    gateway.desk.ends_with = f"the lingering gateway ({stays} after its last command)"
    try:
        await made.door.listen(app.around.state)
        gateway.execution.warm_up(settings)
        os.write(ready, b"+")
        os.close(ready)
        await made.serve()
    finally:
        await made.door.close()
        await gateway.close()


class Lingering:
    """One lingering gateway, from its first client to its end."""

    def __init__(self, app: App, gateway: Gateway, *, config: str, linger_s: float) -> None:
        self.shutdown = Shutdown()
        self.door = Door(gateway, self._inquire, self._ready)
        self._gateway = gateway
        self._state = app.around.state
        self._linger_s = linger_s
        self._sources = _Sources()
        self._code = of_code(os.environ)
        # A caller whose variables differ is told which, and no value is.
        self._around = {name: digest(os.fsencode(value)) for name, value in surroundings(os.environ).items()}
        self._app, self._config = app, config
        self._brings = sorted(brought(gateway.settings))
        self._busy = time.monotonic()

    async def serve(self) -> None:
        """Serve until idle, or told to end; then let those finish who are being served."""
        # The first idle moment is for importing what an MCP client would wait for.
        swept, warm = time.monotonic(), False
        while not self.shutdown.asked.is_set() and self.door.listens and not await self._is_over():
            if not warm and self.idle_s >= _LOOK_S:
                warm = True
                await imported(load_mcp)
            if time.monotonic() - swept >= _SWEEP_S:
                swept = time.monotonic()
                await sandboxes.sweep(self._gateway)
            await self._pause()
        self.door.withdraw()
        while self.door.clients and not self.shutdown.asked.is_set():
            await self._pause()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.shutdown.asked.wait(), min(_LOOK_S, max(self._linger_s / 4, 0.05)))

    async def _is_over(self) -> bool:
        if not self.door.is_found(os.path.join(self._state, SOCKET_NAME)):
            return True  # The state folder was removed, or another gateway has it.
        if self.idle_s < self._linger_s:
            return False
        for live in self._gateway.execution.fleet.listed():
            await live.settle()
            if not live.idle:
                # What runs in the background is why somebody left it running.
                self._busy = time.monotonic()
                return False
        return not self.door.clients

    @property
    def idle_s(self) -> float:
        """Return for how long nobody has called."""
        return 0.0 if self.door.clients else self._since

    @property
    def _since(self) -> float:
        return time.monotonic() - max(self._busy, self.door.left)

    def _ready(self) -> dict[str, Any]:
        code = "changed" if self._sources.changed() else self._code
        told = {"config": self._config, "code": code, "lingers": self._linger_s, "brings": self._brings}
        return {"op": "ready", "protocol": 1, **told, "around": self._around}

    async def _drain(self) -> bool:
        self.door.withdraw()
        await self._gateway.execution.fleet.reap(lambda _: True)
        return True

    async def _inquire(self, name: str, args: dict[str, Any]) -> Any:
        if name == "end":
            return self.shutdown.ask()
        if name == "gateway":
            # Whoever asks is a client too.
            idle_s = self._since if len(self.door.clients) == 1 else 0.0
            return {"pid": os.getpid(), "lingers_s": self._linger_s, "idle_s": round(idle_s, 1)}
        if name == "drain":
            return await self._drain()
        if name == "reload":
            # The callers of a lingering gateway all have one configuration: another begins with the next call.
            return fingerprint(self._app.again().config) != self._config and await self._drain()
        return await inquiries.answer(self._gateway, name, args)


class _Sources:
    """The files of this code as they were at the start: after an upgrade, half of what runs would be old, half new."""

    def __init__(self) -> None:
        folders = os.walk(os.path.dirname(os.path.abspath(crabpot.__file__)))
        files = [os.path.join(folder, name) for folder, _, names in folders for name in names if name.endswith(".py")]
        self._seen = {file: _modified(file) for file in files}

    def changed(self) -> bool:
        """Return whether one of them is another than the one that was there."""
        return any(_modified(file) != seen for file, seen in self._seen.items())


def _modified(file: str) -> int | None:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return None
