"""A gateway in folders of its own, over a backend that a test chooses."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from crabpot.app import App
from crabpot.approvals.desk import Desk
from crabpot.audit.store import AuditLog
from crabpot.backends.registry import Registry
from crabpot.config.load import from_text
from crabpot.gateway import Gateway
from crabpot.host_commands.elevated import ElevatedCommands
from crabpot.host_commands.host import Host
from crabpot.host_commands.shims import HostCommands
from crabpot.sandboxes.execution import Execution
from crabpot.sandboxes.fleet import Fleet
from crabpot.sandboxes.opening import connect
from crabpot.spec.binds import Surroundings
from tests.support.runners import ENV, Unconfined

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ON_HOST = '{agents: {defaults: {workspace: "WS", sandbox: {mode: "off"}}}}'
SANDBOXED = '{agents: {defaults: {workspace: "WS", sandbox: {mode: "all"}}}}'


class Bench:
    """A gateway over a configuration, with a double for its backend, in folders of its own."""

    def __init__(self, folder: Path, text: str, backend: Any, *, grace_s: float = 5.0) -> None:
        self.folder = folder
        self.state = str(folder / "state")
        self.workspace = folder / "ws"
        self.backend = backend
        around = Surroundings(home=str(folder / "home"), state=self.state, config=str(folder / "crabpot.json5"))
        settings = from_text(text.replace("WS", str(self.workspace)), around.config, around, {})
        self.audit = AuditLog(self.state)
        self.audit.open()
        registry = Registry({"bubblewrap": backend})
        fleet = Fleet(limits=settings.gateway)
        self.execution = Execution(around=around, registry=registry, environ=ENV, fleet=fleet)
        self.desk = Desk(self.state)
        host = Host(settings=settings, around=around, environ=ENV)
        elevated = ElevatedCommands(desk=self.desk, audit=self.audit, execution=self.execution, host=lambda: host)
        self.execution.opener.connect = partial(connect, grace_s=grace_s)
        commands = HostCommands(elevated=elevated)
        self.execution.opener.answering = lambda scope, _: commands.answers(scope)
        self.gateway = Gateway(settings=settings, execution=self.execution, elevated=elevated, audit=self.audit)
        self.app = App(config=None, around=around, environ=ENV)


@asynccontextmanager
async def opened(
    folder: Path, text: str = SANDBOXED, backend: Any = None, *, grace_s: float = 5.0
) -> AsyncIterator[Bench]:
    """Open a gateway for as long as a block lasts."""
    made = Bench(folder, text, backend or Unconfined(), grace_s=grace_s)
    try:
        yield made
    finally:
        await made.gateway.close()
