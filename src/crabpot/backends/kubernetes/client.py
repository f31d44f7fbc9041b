"""A small client of a cluster's API: JSON requests, watches, and the WebSocket of an exec."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp

from crabpot.backends.kubernetes.credentials import Credentials
from crabpot.backends.kubernetes.errors import ClusterAway, ClusterRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from crabpot.backends.kubernetes.kubeconfig import Login

PROTOCOL = "v5.channel.k8s.io"

_UNAUTHORIZED, _ERRORS = 401, 400
_HEARTBEAT_S = 15.0
_LARGEST_LINE = 4 * 1024**2
_LARGEST_MESSAGE = 4 * 1024**2


class Cluster:
    """One cluster, as one user. Connections are made on first use; `close` ends them."""

    def __init__(self, login: Login, environ: Mapping[str, str]) -> None:
        self.server = login.server
        self.source = login.source
        self._name = login.server_name
        self._credentials = Credentials(login, environ)
        self._tls = self._credentials.tls()
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Send a GET request."""
        return await self.request("GET", path, query)

    async def post(self, path: str, body: object) -> Any:
        """Send a POST request."""
        return await self.request("POST", path, body=body)

    async def delete(self, path: str, body: object = None, query: Mapping[str, str] | None = None) -> Any:
        """Send a DELETE request."""
        return await self.request("DELETE", path, query, body=body)

    async def request(  # noqa: PLR0913  what a request is
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: object = None,
        kind: str = "application/json",
        timeout_s: float = 30.0,
    ) -> Any:
        """Send one request, and return the JSON of the answer; a token that expired is replaced once."""
        for last in (False, True):
            try:
                async with (
                    asyncio.timeout(timeout_s),
                    self._client().request(
                        method,
                        self._url(path, query),
                        data=None if body is None else json.dumps(body),
                        headers={**await self._headers(), "Content-Type": kind},
                        ssl=self._tls,
                        server_hostname=self._name,
                    ) as answer,
                ):
                    content = await answer.read()
                    if answer.status == _UNAUTHORIZED and not last and self._credentials.forget():
                        continue
                    return _answer(answer.status, content)
            except TimeoutError:
                raise ClusterAway(f"{self.server} did not answer {method} {path} within {timeout_s:g} s") from None
            except (aiohttp.ClientError, OSError) as error:
                raise ClusterAway(f"{self.server} does not answer: {_reason(error)}") from None
        raise AssertionError

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch until the server ends it."""
        try:
            async with self._client().get(
                self._url(path, {**query, "watch": "true"}),
                headers=await self._headers(),
                ssl=self._tls,
                server_hostname=self._name,
            ) as answer:
                if answer.status >= _ERRORS:
                    _answer(answer.status, await answer.read())
                while line := await answer.content.readline():
                    yield json.loads(line)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ClusterAway(f"{self.server} does not answer: {_reason(error)}") from None

    async def exec(
        self, path: str, command: Sequence[str], *, container: str, timeout_s: float = 30.0
    ) -> aiohttp.ClientWebSocketResponse:
        """Start a program in a container, and return the stream to it; it is kept alive by heartbeats."""
        flags = {"container": container, "stdin": "true", "stdout": "true", "stderr": "true"}
        query = urlencode([*flags.items(), *(("command", word) for word in command)])
        try:
            async with asyncio.timeout(timeout_s):
                return await self._client().ws_connect(
                    f"{self.server}{path}?{query}",
                    protocols=(PROTOCOL,),
                    headers=await self._headers(),
                    heartbeat=_HEARTBEAT_S,
                    max_msg_size=_LARGEST_MESSAGE,
                    autoclose=True,
                    ssl=self._tls,
                    server_hostname=self._name,
                )
        except TimeoutError:
            raise ClusterAway(f"{self.server} opened no exec stream within {timeout_s:g} s") from None
        except aiohttp.WSServerHandshakeError as error:
            raise ClusterRefused(
                error.status, "", f"the exec stream was refused ({error.status}: {error.message})"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise ClusterAway(f"{self.server} does not answer: {_reason(error)}") from None

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            # One connection for each sandbox is kept for its stream: their number is the fleet's business.
            connector = aiohttp.TCPConnector(limit=0)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=_LARGEST_LINE)
        return self._session

    def _url(self, path: str, query: Mapping[str, str] | None) -> str:
        return f"{self.server}{path}{'?' + urlencode(query) if query else ''}"

    async def _headers(self) -> dict[str, str]:
        token = await self._credentials.token()
        return {"User-Agent": "crabpot", **({} if token is None else {"Authorization": f"Bearer {token}"})}


def _answer(status: int, content: bytes) -> Any:
    try:
        document = json.loads(content) if content.strip() else None
    except (ValueError, RecursionError):
        document = content.decode("utf-8", "replace")[:500]
    if status >= _ERRORS:
        said = document if isinstance(document, dict) else {"message": document}
        raise ClusterRefused(status, str(said.get("reason") or ""), str(said.get("message") or f"status {status}"))
    return document


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        # asyncio puts the address where the reason is.
        return os.strerror(error.os_error.errno) if error.os_error.errno else str(error.os_error)
    return str(error) or type(error).__name__
