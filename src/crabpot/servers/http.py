"""HTTP to a remote server over the gateway's own egress: the only way that a request to one leaves."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpcore2
import httpx2

from crabpot.egress.destinations import BadDestination, read
from crabpot.egress.outside import Plain
from crabpot.egress.reaching import Failed, Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from ssl import SSLContext

    from crabpot.egress.destinations import Destination
    from crabpot.egress.outside import Outside
    from crabpot.egress.reaching import Added, Egress

_GOODBYE_S = 2.0
# A server says how soon its stream is asked for again. Not sooner than this.
_BETWEEN_STREAMS_S = 1.0
_GONE = 204
_UNAUTHORIZED, _FORBIDDEN = 401, 403


class Broken(Exception):
    """A request that was not sent, or not answered; the message says why, for a person."""


class Stream(httpcore2.AsyncNetworkStream):
    """A connection that egress made, and how much came in on it."""

    def __init__(self, server: Outside, egress: Egress, destination: Destination, taken: Callable[[int], None]) -> None:
        self._server = server
        self._egress = egress
        self._destination = destination
        self._taken = taken
        self._waiting = b""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  httpcore's own
        """Return the next bytes; empty at EOF."""
        if not self._waiting:
            async with asyncio.timeout(timeout):
                self._waiting = await self._server.receive()
            self._taken(len(self._waiting))
        data, self._waiting = self._waiting[:max_bytes], self._waiting[max_bytes:]
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  httpcore's own
        """Send all the bytes."""
        async with asyncio.timeout(timeout):
            await self._server.send(buffer)

    async def aclose(self) -> None:
        """End the connection."""
        self._server.close()

    async def start_tls(
        self,
        ssl_context: SSLContext,  # noqa: ARG002  what is trusted is for egress to say
        server_hostname: str | None = None,  # noqa: ARG002  and the name is that of the destination
        timeout: float | None = None,  # noqa: ASYNC109, ARG002  httpcore's own
    ) -> Stream:
        """Begin TLS, unless egress has done so for a secret's sake."""
        if isinstance(self._server, Plain):
            self._server = await self._egress.encrypt(self._server, self._destination)
        return self

    def get_extra_info(self, info: str) -> Any:
        """Return nothing: httpcore asks whether an idle connection became readable, and reads to find out."""


class _Dialler(httpcore2.AsyncNetworkBackend):
    def __init__(self, egress: Egress, taken: Callable[[int], None]) -> None:
        self._egress = egress
        self._taken = taken

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  httpcore's own
        *_: Any,
        **_more: Any,
    ) -> httpcore2.AsyncNetworkStream:
        destination = read(host, port)
        async with asyncio.timeout(timeout):
            reached = await self._egress.reach(destination)
        return Stream(reached.server, self._egress, destination, self._taken)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class ThroughEgress(httpx2.AsyncBaseTransport):
    """Sends requests over connections that egress decided on, with the secrets of their host added."""

    def __init__(self, egress: Egress, taken: Callable[[int], None], source: str) -> None:
        self._egress = egress
        self._source = source
        # Each request has a connection of its own: a rule that changed counts at once.
        self._pool = httpcore2.AsyncConnectionPool(
            network_backend=_Dialler(egress, taken), max_keepalive_connections=0, http2=False
        )
        self._asked = 0.0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request, or raise Broken."""
        if request.method == "GET":
            await asyncio.sleep(self._asked + _BETWEEN_STREAMS_S - time.monotonic())
            self._asked = time.monotonic()
        try:
            if request.method == "DELETE":
                return await self._say_goodbye(request)
            return await self._send(request)
        except (Refused, Failed, BadDestination) as error:
            raise Broken(str(error)) from None
        except (OSError, TimeoutError, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise Broken(f"{request.url.host} did not answer as HTTP does: {error or type(error).__name__}") from None

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        added = await self._egress.added_headers(read(url.host, port))
        names = {name.lower() for name, _ in added} | {b"accept-encoding"}
        kept = [(name, value) for name, value in request.headers.raw if name.lower() not in names]
        sent = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            # A kilobyte of gzip can be a gigabyte of text.
            headers=[*kept, (b"Accept-Encoding", b"identity"), *added],
            content=request.stream,
            extensions=request.extensions,
        )
        answer = await self._pool.handle_async_request(sent)
        headers = httpx2.Headers(answer.headers)
        if headers.get("content-encoding", "identity") != "identity":
            await answer.aclose()
            raise Broken(f"{url.host} sent a compressed answer, which was not asked for")
        if answer.status in (_UNAUTHORIZED, _FORBIDDEN) and request.method == "POST":
            await answer.aclose()
            raise Broken(self._wanted(answer.status, added))
        return httpx2.Response(status_code=answer.status, headers=headers, stream=_Body(answer.stream))

    def _wanted(self, status: int, added: Added) -> str:
        """Return what to do about a server that wants another key than it got."""
        if added:
            names = ", ".join(name.decode() for name, _ in added)
            return f"it refused the key in {names} (HTTP {status}): renew what {self._source}.secrets names"
        how = f'keep a token for it with `crabpot secrets set NAME`, and write secrets: ["NAME"] in {self._source}'
        return f"it wants a key (HTTP {status}), and Crabpot logs in nowhere (OAuth): {how}"

    async def _say_goodbye(self, request: httpx2.Request) -> httpx2.Response:
        """Notify the server that the session ended, and wait for nothing that it could drag out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_S):
                await (await self._send(request)).aclose()
        return httpx2.Response(status_code=_GONE)

    async def aclose(self) -> None:
        """End every connection."""
        await self._pool.aclose()
