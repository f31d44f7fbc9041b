"""A server of the attacker's or its victim's, which remembers what it was sent."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

_WAIT_S = 5.0
_LONGEST = 65536
# TLS where there is none: no end of a head would come.
_HELLO = b"\x16"


@asynccontextmanager
async def hearing(heard: list[bytes], answer: bytes, shows: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Start a server that records the head of each request and answers it; yield its port."""

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b""
        try:
            async with asyncio.timeout(_WAIT_S):
                while b"\r\n\r\n" not in said and not said.startswith(_HELLO) and (data := await reader.read(_LONGEST)):
                    said += data
        except (TimeoutError, OSError):
            pass
        heard.append(said)
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1", 0, ssl=shows) as server:
        port: int = server.sockets[0].getsockname()[1]
        yield port
