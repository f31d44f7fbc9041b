"""A small client of the local engine's API: HTTP over its Unix socket, one connection per request."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST = (1, 41)

_LARGEST_BODY = 64 * 1024**2
_LARGEST_HEAD = 64 * 1024
_OK, _NO_CONTENT, _NOT_MODIFIED, _ERRORS = 200, 204, 304, 400
_SWITCHING = 101


class EngineError(Exception):
    """The engine did not do what was requested."""


class EngineAway(EngineError):
    """It does not answer: not there, restarting, or too slow."""


class EngineRefused(EngineError):
    """It answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EngineOld(EngineError):
    """It supports no version of the API that has what a sandbox needs."""


class Engine:
    """One engine, by the path of its socket. `version` is set by `negotiate`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = ""

    async def negotiate(self) -> dict[str, Any]:
        """Choose the oldest API version that both sides support, and return what the engine says of itself."""
        said: dict[str, Any] = await self.get("/version", timeout_s=10.0)
        newest = _version(said.get("ApiVersion"))
        if newest < OLDEST:
            raise EngineOld(
                f"the engine {said.get('Version')} speaks API {said.get('ApiVersion')}, and {_text(OLDEST)} is needed: "
                "update it to docker 20.10 or newer"
            )
        # Engines drop old versions too; of those left, the oldest has changed the least.
        self.version = "/v" + _text(max(OLDEST, _version(said.get("MinAPIVersion", "1.12"))))
        return said

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout_s: float = 30.0) -> Any:
        """Send a GET request."""
        return await self.request("GET", path, query, timeout_s=timeout_s)

    async def post(
        self, path: str, query: Mapping[str, str] | None = None, *, body: Any = None, timeout_s: float = 60.0
    ) -> Any:
        """Send a POST request."""
        return await self.request("POST", path, query, body=body, timeout_s=timeout_s)

    async def delete(self, path: str, query: Mapping[str, str] | None = None, *, timeout_s: float = 60.0) -> Any:
        """Send a DELETE request."""
        return await self.request("DELETE", path, query, timeout_s=timeout_s)

    async def request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, *, body: Any = None, timeout_s: float
    ) -> Any:
        """Send one request, and return the JSON of the answer (None if it has none)."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_unix_connection(self.path, limit=_LARGEST_HEAD)
                try:
                    writer.write(self._head(method, path, query, body, "Connection: close"))
                    status, fields = await _read_head(reader)
                    content = await _read_body(reader, status, fields)
                finally:
                    writer.close()
        except TimeoutError:
            raise EngineAway(
                f"the engine at {self.path} did not answer {method} {path} within {timeout_s:g} s"
            ) from None
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise EngineAway(f"the engine at {self.path} does not answer: {_reason(error)}") from None
        return _answer(status, content)

    async def attach(self, container: str, *, timeout_s: float = 30.0) -> socket.socket:
        """Return a stream to a container's standard streams. Call it before the start, so that nothing is missed."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            async with asyncio.timeout(timeout_s):
                await self._attach(sock, container)
        except TimeoutError:
            sock.close()
            raise EngineAway(f"the engine at {self.path} did not attach within {timeout_s:g} s") from None
        except (OSError, EOFError, ValueError) as error:
            sock.close()
            raise EngineAway(f"the engine at {self.path} does not answer: {_reason(error)}") from None
        except BaseException:
            sock.close()
            raise
        return sock

    async def _attach(self, sock: socket.socket, container: str) -> None:
        loop = asyncio.get_running_loop()
        query = {"stream": "1", "stdin": "1", "stdout": "1", "stderr": "1"}
        upgrade = "Connection: Upgrade\r\nUpgrade: tcp"
        await loop.sock_connect(sock, self.path)
        await loop.sock_sendall(
            sock, self._head("POST", f"/containers/{quote(container)}/attach", query, None, upgrade)
        )
        said = b""
        while b"\r\n\r\n" not in said:
            piece = await loop.sock_recv(sock, _LARGEST_HEAD)
            said += piece
            if not piece or len(said) > _LARGEST_HEAD:
                raise EOFError("it hung up")
        head, _, rest = said.partition(b"\r\n\r\n")
        status = _status(head.partition(b"\r\n")[0])
        # A container that does not run yet sends nothing; what follows a refusal is the reason.
        if status not in (_SWITCHING, _OK) or rest:
            _answer(max(status, _ERRORS), rest)

    async def run_to_end(self, container: str, *, timeout_s: float) -> bytes:
        """Start a container, and return all that it sends until it ends."""
        sock = await self.attach(container)
        received, total = [], 0
        try:
            await self.post(f"/containers/{quote(container)}/start")
            async with asyncio.timeout(timeout_s):
                while piece := await asyncio.get_running_loop().sock_recv(sock, _LARGEST_HEAD):
                    total = _bounded(total + len(piece))
                    received.append(piece)
        except (TimeoutError, OSError, ValueError) as error:
            raise EngineAway(f"a container did not run to its end: {_reason(error)}") from None
        finally:
            sock.close()
        return b"".join(received)

    def _head(self, method: str, path: str, query: Mapping[str, str] | None, body: Any, connection: str) -> bytes:
        target = f"{self.version}{path}{'?' + urlencode(query) if query else ''}"
        content = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else "Content-Type: application/json\r\n"
        lines = f"{method} {target} HTTP/1.1\r\nHost: docker\r\nUser-Agent: crabpot\r\n{connection}\r\n{kind}"
        return f"{lines}Content-Length: {len(content)}\r\n\r\n".encode("ascii") + content


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return _status(first.encode("latin-1")), fields


async def _read_body(reader: asyncio.StreamReader, status: int, fields: Mapping[str, str]) -> bytes:
    if status in (_NO_CONTENT, _NOT_MODIFIED):
        return b""
    if fields.get("transfer-encoding", "").lower() == "chunked":
        return await _read_chunks(reader)
    if "content-length" in fields:
        return await reader.readexactly(_bounded(int(fields["content-length"])))
    content = await reader.read(_LARGEST_BODY + 1)
    _bounded(len(content))
    return content


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    pieces: list[bytes] = []
    total = 0
    while True:
        size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        if size == 0:
            return b"".join(pieces)
        total = _bounded(total + size)
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)


def _bounded(size: int) -> int:
    if not 0 <= size <= _LARGEST_BODY:
        raise ValueError("the answer is too large")
    return size


def _status(line: bytes) -> int:
    words = line.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():  # noqa: PLR2004
        raise ValueError("what listens there does not speak HTTP")
    return int(words[1])


def _answer(status: int, content: bytes) -> Any:
    try:
        document = json.loads(content) if content.strip() else None
    except (ValueError, RecursionError):
        document = content.decode("utf-8", "replace")
    if status >= _ERRORS:
        message = document.get("message") if isinstance(document, dict) else document
        raise EngineRefused(status, str(message or f"status {status}"))
    return document


def _version(text: object) -> tuple[int, int]:
    major, _, minor = str(text).partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _reason(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "permission denied; add this user to the group docker, or set DOCKER_HOST to a rootless engine's socket"
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return f"{error.strerror}; is it running? (systemctl start docker)"
    return str(error) or type(error).__name__
