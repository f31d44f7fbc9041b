"""Where promises are checked: throw-away gateways over one backend, each with a state and folders of its own."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.proof.conformance.promises import Broken, good
from crabpot.spec.hardening import NOBODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult
    from crabpot.sandboxes.streams import Streams

    # From a configuration's text and a state folder to the gateway over them.
    OpenGateway = Callable[[str, str], Gateway]

HOST = "host"
_POLL_S = 0.02


def unique_nap() -> str:
    """Return a command that sleeps for long, and that nobody else on this machine runs."""
    return f"sleep 900.{secrets.randbelow(10**9):09d}"


class Box:
    """One session, and what a check does with it."""

    def __init__(self, gateway: Gateway, folder: str, session: str = "agent:main:conformance") -> None:
        self.gateway = gateway
        self.folder = folder
        self.session = session

    @property
    def agent_folder(self) -> str:
        """Return the agent's own workspace, on the host."""
        return f"{self.folder}/agent"

    def beside(self, session: str) -> Box:
        """Return another session of the same gateway."""
        return Box(self.gateway, self.folder, session)

    async def call(self, tool: str, *, streams: Streams | None = None, **args: Any) -> ToolResult:
        """Call a tool."""
        return await self.gateway.call(self.session, tool, args, streams=streams)

    async def run(self, command: str | list[Any], **args: Any) -> ToolResult:
        """Run shell text, or an argv."""
        return await self.call("exec", command=command, **args)

    async def out(self, command: str, **args: Any) -> str:
        """Run shell text that must succeed, and return what it printed."""
        result = await self.run(command, **args)
        good(result)
        return result.stdout

    async def start(self, command: str, **args: Any) -> str:
        """Start a background process, and return its id."""
        return str(good(await self.run(command, background=True, **args))["process"])

    async def said(self, process: str, text: str, seconds: float = 10.0) -> str:
        """Wait until a background process has printed this, and return all of it."""
        heard = ""
        until = time.monotonic() + seconds
        while text not in heard:
            if time.monotonic() > until:
                raise Broken(f"process {process} never printed {text!r}, only {heard!r}")
            polled = await self.call("process", action="poll", id=process)
            good(polled)
            heard += polled.stdout
            await asyncio.sleep(_POLL_S)
        return heard

    async def running(self, command: str) -> int:
        """Count the processes with this command line that the session can see."""
        # In brackets, so that the shell that searches does not find itself.
        pattern = f"[{command[0]}]{command[1:]}"
        return int(await self.out(f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o '{pattern}' | wc -l"))

    async def stop(self) -> None:
        """End every sandbox; the next call opens a fresh one."""
        fleet = self.gateway.execution.fleet
        for live in fleet.listed():
            await fleet.stop(live.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """One backend to check; `backend` is its name in the configuration, or `host` for sessions without a sandbox."""

    open_gateway: OpenGateway
    backend: str
    sandbox: Mapping[str, Any] = field(default_factory=dict)
    """What the backend needs to be told here, as settings of its sandboxes."""

    @property
    def on_host(self) -> bool:
        """Return whether nothing is confined here."""
        return self.backend == HOST

    @asynccontextmanager
    async def open(
        self, *, folder: str | None = None, tools: dict[str, Any] | None = None, **sandbox: Any
    ) -> AsyncIterator[Box]:
        """Open a session over a gateway of its own; `folder` is an earlier one's, to open over the same state again."""
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="crabpot-conformance-") as made:
                lay_out(made)
                async with self.open(folder=made, tools=tools, **sandbox) as box:
                    yield box
            return
        written = {"mode": "off"} if self.on_host else {"mode": "all", "backend": self.backend, **self.sandbox}
        defaults = {"workspace": f"{folder}/agent", "sandbox": {**sandbox, **written}}
        gateway = self.open_gateway(
            json.dumps({"agents": {"defaults": defaults}, "tools": tools or {}}), f"{folder}/state"
        )
        try:
            yield Box(gateway, folder)
        finally:
            await gateway.close()

    async def degrades(self, box: Box, clause: str) -> bool:
        """Return whether the backend announced that it keeps only a part of a clause on this machine."""
        execution = box.gateway.execution
        spec, _ = execution.describe(box.gateway.settings.agent("main"), box.session)
        _, clauses = await execution.registry.clauses(spec)
        return any(one.name == clause and one.state == "degraded" for one in clauses)


def lay_out(folder: str) -> None:
    """Make the agent's folder, as this user's own or, for root, owned by a user whom a sandbox can run as."""
    os.mkdir(f"{folder}/agent")
    if os.geteuid() == 0:
        os.chmod(folder, 0o711)  # noqa: S103  its sandboxes are somebody else, and must get through
        os.chown(f"{folder}/agent", NOBODY, NOBODY)
