"""Serve one connection of a program inside: HTTP proxy and SOCKS 5 on one port, told apart by the first byte.

The runner only carries bytes. All of them are parsed here, out of reach of what runs inside.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from crabpot.egress import messages, socks, terminating
from crabpot.egress.destinations import BadDestination, read_authority
from crabpot.egress.inspection import Disagreement, Speaks, SshCheck, TlsCheck, check_kind, speaks
from crabpot.egress.messages import BadRequest, Body
from crabpot.egress.reaching import Failed, Refused
from crabpot.egress.relay import Counted, Inbox, Silent, both_ways, send
from crabpot.egress.tls import UNRECOGNISED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from crabpot.egress.destinations import Destination
    from crabpot.egress.messages import Request
    from crabpot.egress.reaching import Egress, Reached
    from crabpot.egress.relay import Stream

    Up = Callable[[], Coroutine[Any, Any, None]]

_GREETING_S = 120.0
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_STATUS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 504: "Gateway Timeout"}


class _Ended(Exception):
    """The connection is finished."""


async def serve(egress: Egress, stream: Stream) -> None:
    """Serve one connection until it ends."""
    with suppress(_Ended, ConnectionError):
        await _Connection(egress, stream).run()
    stream.reply()


class _Connection:
    def __init__(self, egress: Egress, stream: Stream) -> None:
        self._egress = egress
        self._stream = stream
        self._inbox = Inbox(stream)
        self._counted = Counted()

    async def run(self) -> None:
        try:
            async with asyncio.timeout(_GREETING_S):
                if not await self._inbox.more():
                    return
                if self._inbox.waiting[0] == socks.VERSION:
                    destination = await self._socks()
                    head = None
                else:
                    head = await self._head()
        except TimeoutError:
            return
        if head is None:
            await self._tunnel_by_socks(destination)
        else:
            await self._http(head)

    # --- SOCKS ------------------------------------------------------------------------------------------------------

    async def _socks(self) -> Destination:
        while (greeting := socks.read_greeting(bytes(self._inbox.waiting))) is None:
            await self._need_more()
        size, fits = greeting
        self._inbox.take(size)
        await self._stream.write(socks.CHOSEN if fits else socks.NOT_CHOSEN)
        if not fits:
            raise _Ended
        try:
            while (asked := socks.read_request(bytes(self._inbox.waiting))) is None:
                await self._need_more()
        except socks.BadSocks as error:
            await self._stream.write(socks.reply(error.reply))
            raise _Ended from None
        self._inbox.take(asked[0])
        return asked[1]

    async def _tunnel_by_socks(self, destination: Destination) -> None:
        try:
            reached = await self._egress.reach(destination, self._left)
        except Refused:
            await self._stream.write(socks.reply(socks.Reply.NOT_ALLOWED))
            return
        except Failed:
            await self._stream.write(socks.reply(socks.Reply.UNREACHABLE))
            return
        with closing(reached.server):
            await self._stream.write(socks.reply(socks.Reply.DONE))
            await self._tunnel(destination, reached)

    # --- HTTP -------------------------------------------------------------------------------------------------------

    async def _head(self) -> bytes:
        at = 0
        while True:
            end = self._inbox.waiting.find(b"\r\n\r\n", max(0, at - 3))
            if end >= 0:
                return self._inbox.take(end + 4)
            at = len(self._inbox.waiting)
            if at > messages.LONGEST_HEAD:
                await self._answer(400, "the head of the request is too long")
            await self._need_more()

    async def _http(self, head: bytes) -> None:
        try:
            request = messages.read_head(head)
            if request.method == b"CONNECT":
                destination, path = read_authority(request.target.decode("ascii")), b""
            else:
                destination, path = messages.destination_of(request)
        except (BadRequest, BadDestination) as error:
            await self._answer(400, f"not passed on: {error}")
        if request.method == b"CONNECT":
            reached = await self._reach(destination)
            with closing(reached.server):
                await self._stream.write(_ESTABLISHED)
                await self._tunnel(destination, reached)
        else:
            await self._pass_on(request, destination, path)

    async def _pass_on(self, request: Request, destination: Destination, path: bytes) -> None:
        """Send one request with exactly its body, and pass back the server's whole response."""
        try:
            added = await self._egress.added_headers(destination)
        except Failed as error:
            await self._answer(502, str(error))
        reached = await self._reach(destination)
        with closing(reached.server):
            head = messages.write_head(request, destination, path, added)
            body = Body(request.size)
            await send(reached.server, head, self._counted)
            await self._answered(destination, reached, partial(self._send_body, body, reached))

    async def _answered(self, destination: Destination, reached: Reached, up: Up) -> None:
        """Pass back a response, unless it ends in silence: before its first byte there is an answer of our own."""
        try:
            await both_ways(self._stream, reached.server, up, self._counted, self._egress.silent_s)
        except Silent:
            said = self._egress.fell_silent(destination)
            if not self._counted.received:
                await self._answer(504, said)

    async def _send_body(self, body: Body, reached: Reached) -> None:
        """Send a request's body. What comes after it is never read: each request has its own connection."""
        while not body.complete:
            data = await self._inbox.next()
            if not data:
                reached.server.half_close()
                return
            try:
                passed = body.feed(data)
            except BadRequest:
                raise _Ended from None
            await send(reached.server, passed, self._counted)

    async def _left(self) -> None:
        """Wait until the program closes its end. It may send what comes after its request before that."""
        while len(self._inbox.waiting) < messages.LONGEST_HEAD:
            if not await self._inbox.more():
                return
        await asyncio.Event().wait()

    async def _reach(self, destination: Destination) -> Reached:
        try:
            return await self._egress.reach(destination, self._left)
        except Refused as error:
            await self._answer(403, str(error))
        except Failed as error:
            await self._answer(502, str(error))

    async def _answer(self, status: int, message: str) -> NoReturn:
        body = f"crabpot: {message}\n".encode()
        head = (
            f"HTTP/1.1 {status} {_STATUS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nProxy-Status: crabpot\r\nConnection: close\r\n\r\n"
        )
        await self._stream.write(head.encode("ascii") + body)
        raise _Ended

    # --- tunnels ----------------------------------------------------------------------------------------------------

    async def _tunnel(self, destination: Destination, reached: Reached) -> None:
        """Pass a stream on; what the client sends unencrypted must be for the tunnel's host."""
        rule = self._egress.encrypts(destination)
        if rule is not None and rule.tls == "terminate":
            await self._terminate(destination, reached)
            return
        await both_ways(self._stream, reached.server, partial(self._up, destination, reached), self._counted)

    async def _terminate(self, destination: Destination, reached: Reached) -> None:
        """Answer a program's TLS in the host's place, and pass on what it says as a request like any other."""
        try:
            async with asyncio.timeout(_GREETING_S):
                inside = await terminating.answer(self._egress.authority, destination.host, self._inbox, self._stream)
        except (TimeoutError, ssl.SSLError, KeyError) as error:
            unable = "this sandbox has no authority of its own"
            why = unable if isinstance(error, KeyError) else "the program inside did not agree on TLS for this host"
            await self._end(destination, f'{why} (tls: "terminate")', UNRECOGNISED)
        # One request, as on every other connection.
        own = _Connection(self._egress, inside)
        with suppress(_Ended):
            await own._answered(destination, reached, partial(own._http_inside, destination, reached))
        await inside.finish()

    async def _up(self, destination: Destination, reached: Reached) -> None:
        check: TlsCheck | SshCheck | None = None
        if not reached.raw:
            found = await self._classify(destination, reached)
            if found is Speaks.HTTP:
                await self._http_inside(destination, reached)
                return
            if found is Speaks.TLS:
                check = TlsCheck(destination, everything=reached.rules.everything)
            elif found is Speaks.SSH:
                check = SshCheck(destination)
        while data := await self._inbox.next():
            if check is not None and not check.done:
                try:
                    data = check.feed(data)
                except Disagreement as error:
                    await self._end(destination, str(error), UNRECOGNISED if isinstance(check, TlsCheck) else b"")
            await send(reached.server, data, self._counted)
        reached.server.half_close()

    async def _classify(self, destination: Destination, reached: Reached) -> Speaks:
        """Wait for enough of the client's first bytes. Meanwhile a server that speaks first is passed on."""
        try:
            while (found := speaks(bytes(self._inbox.waiting))) is Speaks.UNKNOWN:
                if not await self._inbox.more():
                    found = Speaks.OTHER
                    break
            if found is not Speaks.OTHER or self._inbox.waiting:
                check_kind(found, destination, everything=reached.rules.everything)
        except Disagreement as error:
            await self._end(destination, str(error), b"")
        return found

    async def _http_inside(self, destination: Destination, reached: Reached) -> None:
        """Parse plain HTTP in a tunnel like any other, so that its Host header cannot name another site."""
        head = await self._head()
        try:
            request = messages.read_head(head.lstrip(b"\r\n"))
            messages.check_inside(request, destination)
            added = await self._egress.added_headers(destination)
        except (BadRequest, Failed) as error:
            await self._end(destination, str(error), b"")
        head = messages.write_head(request, destination, request.target, added)
        await send(reached.server, head, self._counted)
        await self._send_body(Body(request.size), reached)

    async def _end(self, destination: Destination, why: str, last: bytes) -> NoReturn:
        """End a tunnel that is not what it was opened for, and report it."""
        try:
            self._egress.refuse(destination, why)
        except Refused as error:
            if last:
                await self._stream.write(last)
                raise _Ended from None
            await self._answer(403, str(error))

    async def _need_more(self) -> None:
        if not await self._inbox.more():
            raise _Ended
