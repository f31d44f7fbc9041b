"""Start a server once to hear what it says of its tools, for an operator who is to approve it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.audit.records import of_server
from crabpot.errors import CrabpotError, SandboxUnavailable
from crabpot.sandboxes import private_folders
from crabpot.servers import packages
from crabpot.servers.connection import ServerFailed, ServerRefused, ServerTimeout
from crabpot.servers.pins import Pin, digest, origin
from crabpot.servers.sealing import forget_unused, seal

if TYPE_CHECKING:
    from crabpot.servers.pool import Servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What a server says now, beside what was approved before."""

    name: str
    pin: Pin
    before: Pin | None
    servers: Servers

    @property
    def news(self) -> bool:
        """Whether there is anything to approve."""
        before = self.before
        same = before is not None and before.origin == self.pin.origin and before.lock == self.pin.lock
        withheld = self.servers.pins.withheld(self.name)
        return not same or before is None or bool(before.changed(self.pin.tools)) or bool(withheld)

    def keep(self, by: str) -> None:
        """Pin it."""
        self.servers.pins.keep(self.name, self.pin)
        forget_unused(self.servers.execution.around.state, self.servers.pins)
        self.servers.record(of_server(self.name, "approved", by=by, digest=digest(dict(self.pin.tools))))


async def candidate(servers: Servers, name: str) -> Candidate:
    """Start a server in a sandbox that nobody else uses, ask for its tools, and leave nothing of it behind."""
    settings, key = servers.settings, f"server:{name}:approval"
    package = packages.of(settings.mcp.servers[name].command or ("",))
    lock = None if package is None else await seal(name, package, servers.execution, servers.environ)
    try:
        running = await servers.starter.start(name, settings.defaults, key, lock)
    except (ServerFailed, ServerRefused, ServerTimeout, SandboxUnavailable) as error:
        raise CrabpotError(str(error)) from None
    tools = dict(running.tools)
    await servers.starter.end(running, "it is no longer needed")
    private_folders.remove(servers.execution.around.state, lambda kept: kept.scope_key == key)
    pin = Pin(origin=origin(settings.mcp.servers[name]), tools=tools, lock=lock)
    return Candidate(name=name, pin=pin, before=servers.pins.find(name), servers=servers)
