"""Servers on the loopback that sandboxes try to reach, and a resolver that says where names lead."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from crabpot.egress.resolving import Unresolved

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Names:
    """A resolver whose answers a test chooses; each is a list that is given away one question at a time."""

    def __init__(self, **names: Any) -> None:
        self._names = {name.replace("_", "."): answers for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(self, name: str) -> tuple[Any, ...]:
        self.asked.append(name)
        answers = self._names.get(name)
        if not answers:
            raise Unresolved(f"{name}: unknown")
        answer = answers if isinstance(answers, str) else answers.pop(0)
        return tuple(ipaddress.ip_address(text) for text in answer.split())


class Server:
    """Answers every request with its own head, and remembers all of them."""

    def __init__(self, greeting: bytes = b"") -> None:
        self.greeting = greeting
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.port = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self.greeting:
                await self._talk(reader, writer)
            else:
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.greeting)
        while line := await reader.readline():
            writer.write(b"you said " + line)
            await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), b": 0")
        self.bodies.append(await reader.readexactly(int(length.split(b":")[1])))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(head), head))
        await writer.drain()


@asynccontextmanager
async def serving(server: Server, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Let a server listen on the loopback."""
    listening = await asyncio.start_server(server, "127.0.0.1", 0, ssl=context)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


def certified(folder: Path, *names: str) -> ssl.SSLContext:
    """Make a TLS server's context, with a certificate of its own at `folder`/cert.pem."""
    also = ",".join(f"DNS:{name}" for name in names)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", "/CN=crabpot test", "-addext", f"subjectAltName={also}",
         "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context
