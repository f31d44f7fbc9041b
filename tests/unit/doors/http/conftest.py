"""A gateway behind its HTTP door, on a socket and on the loopback, and clients that come to either."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace

import httpx
import pytest

from crabpot.doors.http.access.tokens import Tokens
from crabpot.doors.http.door import opened
from crabpot.doors.http.listening import address


@pytest.fixture
def door(bench):
    """Give a door for as long as a block lasts: `operator` and `stranger` are clients, `client(token)` makes more."""

    @asynccontextmanager
    async def make(*config, limits=None, **options):
        async with bench(*config, **options) as made:
            clients = []
            try:
                async with opened(made.gateway, address("127.0.0.1:0"), limits) as (path, url):

                    def client(token=None, **more):
                        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                        clients.append(
                            httpx.AsyncClient(**{"base_url": url, "headers": headers, "timeout": 30, **more})
                        )
                        return clients[-1]

                    yield SimpleNamespace(
                        made=made,
                        desk=made.gateway.desk,
                        path=path,
                        url=url,
                        client=client,
                        operator=client(base_url="http://crabpot", transport=httpx.AsyncHTTPTransport(uds=path)),
                        stranger=client(),
                        tokens=Tokens(made.state),
                    )
            finally:
                # Behind the door's own end: it must not need its clients to leave first.
                for one in clients:
                    await one.aclose()

    return make
