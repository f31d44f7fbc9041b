"""Connect to an address that was checked: to the address itself, never by name again (DNS rebinding)."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabpot.egress.destinations import Address

_EACH_S, _ALL_S = 10.0, 30.0


class Unreachable(Exception):
    """No address answered."""


async def dial(addresses: Iterable[Address], port: int) -> tuple[socket.socket, Address]:
    """Connect to the first address that answers."""
    failure = "no address"
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_ALL_S):
            for address in addresses:
                family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004
                made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
                try:
                    async with asyncio.timeout(_EACH_S):
                        await loop.sock_connect(made, (str(address), port))
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                except (OSError, TimeoutError) as error:
                    made.close()
                    failure = f"{address}: {getattr(error, 'strerror', None) or 'no answer'}"
                except BaseException:
                    made.close()
                    raise
                else:
                    return made, address
    except TimeoutError:
        failure = f"no answer within {_ALL_S:g} s"
    raise Unreachable(failure)
