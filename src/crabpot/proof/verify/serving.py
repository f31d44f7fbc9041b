"""A gateway with MCP servers to attack. Apart: the servers' SDK is slow to import, and few claims need it."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from crabpot.gateway import Gateway
from crabpot.proof.verify.claims import NotCarriedOut
from crabpot.servers.approving import candidate
from crabpot.servers.pool import Servers
from crabpot.settings import Mcp, Network, Tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from crabpot.proof.verify.target import Target
    from crabpot.settings import McpServer


def _nowhere(_scope: object, _authority: object) -> NoReturn:
    raise NotCarriedOut("no claim is about a remote server")


@asynccontextmanager
async def serving(
    target: Target, servers: Mapping[str, McpServer], deny: tuple[str, ...] = ()
) -> AsyncIterator[tuple[Gateway, str, str]]:
    """Open another gateway with MCP servers, which an operator approves, and yield it with two agents' sessions."""
    gateway = target.with_servers(servers, deny)
    assert gateway.servers is not None
    try:
        for name in servers:
            (await candidate(gateway.servers, name)).keep(by="crabpot verify")
        yield gateway, "agent:served:x", "agent:neighbour:x"
    finally:
        for name in servers:
            await gateway.servers.restart(name)


def with_servers(target: Target, servers: Mapping[str, McpServer], deny: tuple[str, ...]) -> Gateway:
    """Return another gateway over the same sandboxes, whose agents have these servers."""
    plain = replace(
        target.agent.sandbox,
        workspace="none",
        home=None,
        network=Network(),
        binds=(),
        programs=(),
        env={},
        host_commands=(),
        ports=(),
    )
    own = {name: replace(server, sandbox=plain) for name, server in servers.items()}
    agent = replace(target.agent, tools=Tools(deny=deny))
    entries = {name: replace(agent, id=name) for name in ("served", "neighbour")}
    over = target.gateway
    settings = replace(
        over.settings, entries={**over.settings.entries, **entries}, mcp=Mcp(servers=own), mcp_sources={}
    )
    made = Gateway(settings=settings, execution=over.execution, elevated=over.elevated, audit=over.audit)
    made.servers = Servers(
        settings=settings,
        execution=over.execution,
        environ=os.environ,
        record=over.audit.record,
        egress=_nowhere,
        desk=over.desk,
    )
    return made
