"""Keep the gateway of `serve` on its configuration as it is written now: by itself, and when it is asked to."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from crabpot.audit.records import of_reload
from crabpot.config.places import usual_config
from crabpot.doors.local.server import fingerprint
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from crabpot.app import App
    from crabpot.gateway import Gateway
    from crabpot.settings import Settings

_LOOK_S = 1.0


class Reloading:
    """The configuration of one serving gateway; `adopted` is the fingerprint of what it decides by."""

    def __init__(self, app: App, gateway: Gateway, adopted: str) -> None:
        self.adopted = adopted
        self._app = app
        self._gateway = gateway
        self._turn = asyncio.Lock()

    async def reload(self) -> bool:
        """Adopt the file as it is now; return whether it had changed. ConfigError leaves everything as it was."""
        async with self._turn:
            self._app = self._app.again()
            now = fingerprint(self._app.config)
            if now == self.adopted:
                return False
            try:
                settings = await asyncio.to_thread(self._loaded, now)
            except CrabpotError as error:
                self._gateway.audit.record(of_reload(now, str(error)))
                raise
            await self._app.adopt(self._gateway, settings)
            self._gateway.audit.record(of_reload(now))
            self.adopted = now
            return True

    def _loaded(self, now: str) -> Settings:
        settings = self._app.settings()
        if fingerprint(self._app.config) != now:
            raise CrabpotError("the configuration is being changed; try again")
        return settings

    @asynccontextmanager
    async def by_itself(self, complain: Callable[[str], None]) -> AsyncIterator[None]:
        """Notice changes of the file during the block."""
        watching = asyncio.create_task(self._watch(complain))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, complain: Callable[[str], None]) -> None:
        """Reload whenever the file changes; with one that does not load, complain once and go on as before."""
        file = self._app.config or usual_config(self._app.environ, self._app.around.home)
        # It may have changed since it was loaded, so it is looked at once in any case.
        before: object = None
        while True:
            await asyncio.sleep(_LOOK_S)
            now = _facts(file)
            if now == before:
                continue
            before = now
            try:
                await self.reload()
            except CrabpotError as error:
                complain(f"{file} changed and was NOT reloaded, so the gateway goes on as before: {error}")


def _facts(file: str) -> tuple[int, ...]:
    try:
        facts = os.stat(file)
    except OSError:
        return ()
    return facts.st_mtime_ns, facts.st_ino, facts.st_size
