"""Answer a program's TLS in a host's place, under the sandbox's own authority."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.egress.secured import Secured

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from crabpot.egress.authority import Authority
    from crabpot.egress.relay import Inbox, Stream


class Inside:
    """A program's connection once its TLS has ended at the gateway: the same stream, in plain text."""

    def __init__(self, secured: Secured, stream: Stream) -> None:
        self._secured = secured
        self._stream = stream

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields that the runner began the upcall with."""
        return self._stream.fields

    async def read(self) -> bytes:
        """Return the next bytes; empty at EOF."""
        return await self._secured.read()

    async def write(self, data: bytes) -> None:
        """Send bytes, no faster than they are received."""
        await self._secured.write(data)

    def write_eof(self) -> None:
        """Leave it to `finish`, which can wait until the end has been sent."""

    def reply(self, **fields: Any) -> None:
        """Leave the final reply to whoever serves the connection."""

    async def finish(self) -> None:
        """Send the end of TLS, and of the stream."""
        await self._secured.finish()
        self._stream.write_eof()


async def answer(authority: Authority | None, host: str, inbox: Inbox, stream: Stream) -> Inside:
    """Agree on TLS with a program that wants `host`; KeyError where nobody answers for it, ssl.SSLError if it fails."""
    if authority is None:
        raise KeyError(host)
    secured = Secured(authority.context(host), inbox.next, stream.write)
    await secured.handshake()
    return Inside(secured, stream)
