"""A gateway behind its HTTP door, on a socket and on the loopback, and clients that come to either."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from crabpot.doors.http import door
from crabpot.doors.http.access.tokens import Tokens
from crabpot.doors.http.listening import address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.approvals.desk import Desk
    from crabpot.doors.http.listening import Listeners
    from tests.support.gateways import Bench

# No authority is trusted: nothing here is TLS, and reading those of the machine takes longer than opening a door.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(kw_only=True)
class Door:
    """An open door: `operator` comes by the socket, `stranger` by the loopback and without a token."""

    made: Bench
    listeners: Listeners
    path: str
    url: str
    operator: httpx.AsyncClient = field(init=False)
    stranger: httpx.AsyncClient = field(init=False)
    tokens: Tokens = field(init=False)
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = Tokens(self.made.state)
        self.operator = self.client(
            base_url="http://crabpot", transport=httpx.AsyncHTTPTransport(uds=self.path, verify=NO_TLS)
        )
        self.stranger = self.client()

    @property
    def desk(self) -> Desk:
        return self.made.gateway.desk

    def client(self, token: str | None = None, **more: Any) -> httpx.AsyncClient:
        """Make one more client, with a token or without."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        usual = {"base_url": self.url, "headers": headers, "timeout": 30, "verify": NO_TLS}
        self.clients.append(httpx.AsyncClient(**{**usual, **more}))
        return self.clients[-1]


@asynccontextmanager
async def opened(made: Bench, limits: Any = None) -> AsyncIterator[Door]:
    """Open a door for as long as a block lasts."""
    clients: list[httpx.AsyncClient] = []
    try:
        async with door.opened(made.gateway, address("127.0.0.1:0"), limits) as listeners:
            path, url = listeners.where
            yield Door(made=made, listeners=listeners, path=path, url=url, clients=clients)
    finally:
        # Behind the door's own end: it must not need its clients to leave first.
        for one in clients:
            await one.aclose()
