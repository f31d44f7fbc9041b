"""Resolve a name to all its addresses, once for each connection, in the gateway and nowhere else."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from crabpot.egress.destinations import embedded
from crabpot.scheduling.fairness import Allowance
from crabpot.scheduling.threads import FairThreads

if TYPE_CHECKING:
    from crabpot.egress.destinations import Address

_TIMEOUT_S = 15.0
# A silent name server blocks a thread until the system's resolver times out. So these threads are for names only, and
# an agent that asks for a thousand such names waits for its own.
_ALLOWED = Allowance(scope=4, agent=8, agents=128, own=8)
_HOSTS = "/etc/hosts"


class Unresolved(Exception):
    """A name that does not resolve now."""


class Resolver(Protocol):
    """Something that resolves names."""

    async def resolve(self, name: str) -> tuple[Address, ...]:
        """Return every address of a name, best first; Unresolved if there is none."""


class SystemResolver:
    """The host's own resolver: /etc/hosts, DNS, whatever nsswitch configures."""

    def __init__(self) -> None:
        self._threads: FairThreads | None = None

    async def resolve(self, name: str) -> tuple[Address, ...]:
        """Resolve in a thread charged to the caller, with a timeout."""
        if self._threads is None:
            self._threads = FairThreads(_ALLOWED, name="crabpot-resolver")
        asking = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, name)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await asking
        except TimeoutError:
            raise Unresolved(f"{name}: no answer from the resolver within {_TIMEOUT_S:g} s") from None

    def close(self) -> None:
        """Stop the threads, without waiting for one that hangs."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(name: str) -> tuple[Address, ...]:
    written = in_hosts_file(name)
    if written:
        return written
    try:
        # With a trailing dot: without it, a name that does not exist is looked up again below each of the machine's
        # search domains, whose owners could then say where a listed name leads.
        found = socket.getaddrinfo(f"{name}.", None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unresolved(f"{name}: {error.strerror if isinstance(error, OSError) else 'not a name'}") from None
    # A zone (fe80::1%eth0) is cut off: such an address is refused anyway.
    texts = dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found)
    return tuple(dict.fromkeys(embedded(ipaddress.ip_address(text)) for text in texts))


def in_hosts_file(name: str) -> tuple[Address, ...]:
    """Return the addresses of a name in /etc/hosts, which the system's resolver finds only without a trailing dot."""
    found: dict[Address, None] = {}
    try:
        with open(_HOSTS, encoding="utf-8", errors="replace") as file:
            lines = [line.partition("#")[0].split() for line in file]
    except OSError:
        return ()
    for address, *names in filter(None, lines):
        if name in (one.lower() for one in names):
            with suppress(ValueError):
                found[embedded(ipaddress.ip_address(address.partition("%")[0]))] = None
    return tuple(found)
