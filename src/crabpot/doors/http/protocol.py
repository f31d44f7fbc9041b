"""One connection of HTTP: cut off if it does not send its request in time, or is not the gateway's own user's."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from crabpot.decide.scope import OPERATOR, PRINCIPAL
from crabpot.doors.http.access.peers import uid_of
from crabpot.doors.local.server import same_user
from crabpot.scheduling.fair_loop import FairLoop

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from crabpot.doors.http.access.connections import Connections
    from crabpot.doors.inflight import Sign

# For a head, and for what comes between the pieces of a body. Offsets in a parsed URL have 16 bits.
MOST_HEAD = 64 * 1024 - 1
# What comes while a request is answered is parsed already, and waits: so many requests, each no longer than a head.
_MOST_AHEAD = 4
_VERSIONS = ("1.1", "1.0")
# The colon, a space, and the end of the line.
_BESIDES = 4


class NotServed(Exception):
    """A request that the parser lets pass, and this door does not."""


class Reading(FlowControl):
    """Reads while the request that is being answered has room, and its principal need not rest."""

    rests = False

    def resume_reading(self) -> None:
        """Read on, unless the principal rests."""
        if self.read_paused:
            self.read_paused = False
            self._go_on()

    def rest(self) -> None:
        """Read nothing until the principal may go on."""
        self.rests = True
        self._transport.pause_reading()

    def end_rest(self) -> None:
        """Read on, unless the request has no room."""
        self.rests = False
        self._go_on()

    def _go_on(self) -> None:
        if not self.rests and not self.read_paused:
            self._transport.resume_reading()


class Timely(HttpToolsProtocol):
    """Disconnects a client that does not complete a request: it would hold its connection for ever.

    From the start, and from the end of each response, the head of the next request must arrive in time. Partial data,
    a byte of it or the rest of a body that nobody reads any more, does not extend the time.
    """

    _deadline: asyncio.TimerHandle | None = None
    flow: Reading
    peer: int | None = None
    # Who is charged for what comes next: whoever the last request was from. Each has to say so for itself.
    principal: str | None = None
    # Set when the client of the request that is being answered disconnects.
    gone: Sign | None = None
    # The request that is being answered, or was last; `cycle` is the last that came.
    _answered: RequestResponseCycle | None = None
    _head_bytes = _unused_bytes = 0
    _in_head = False

    def connection_made(self, transport: Any) -> None:
        """Count it, and start the clock."""
        super().connection_made(transport)
        self.flow = Reading(transport)
        self.peer = uid_of(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, "connection": self}
        self._connections.arrived(self)
        self._wait_for_request()

    @property
    def _connections(self) -> Connections:
        found: Connections = self.app_state["connections"]
        return found

    @property
    def idle(self) -> bool:
        """Whether no request is being answered on it."""
        return self._answered is None or self._answered.response_complete

    @property
    def has_all(self) -> bool:
        """Whether all of the request that is being answered has come."""
        return self._answered is not None and not self._answered.more_body

    def listen_on(self) -> None:
        """Notice a disconnect, even if the next request began to come already."""
        self.flow.resume_reading()

    def drop(self) -> None:
        """Close it at once."""
        self.transport.abort()

    # --- requests -------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request. Whoever keeps the loop busy with large ones is read from in its turn."""
        whose = self.principal
        if whose is None:
            self._take(data)
            return
        before, began = PRINCIPAL.set(whose), time.thread_time()
        try:
            self._take(data)
        finally:
            PRINCIPAL.reset(before)
        if (
            whose != OPERATOR
            and isinstance(self.loop, FairLoop)
            and self.loop.charge(whose, time.thread_time() - began, self.flow.end_rest)
        ):
            self.flow.rest()

    def _take(self, data: bytes) -> None:
        """Parse what came. The parser keeps what it cannot use yet, however much that is."""
        self._unset_keepalive_if_required()
        self._unused_bytes += len(data)
        try:
            self._parse(data)
        except HttpParserError as error:
            self.send_400_response(f"this is not HTTP as it is spoken here: {error.__context__ or error}")
            return
        if self._unused_bytes > MOST_HEAD:
            self.send_400_response(f"more than {MOST_HEAD} bytes of a head")

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except HttpParserUpgrade as upgrade:
                # Nothing is upgraded: it is a request like any other, and what follows it is the next one.
                data = data[upgrade.args[0] :]
            else:
                return

    def on_message_begin(self) -> None:
        """Begin a request."""
        if len(self.pipeline) >= _MOST_AHEAD:
            raise NotServed(f"more than {_MOST_AHEAD} requests before the answer to the first")
        self._head_bytes, self._in_head = 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Those after the body are dropped: nobody has checked them."""
        self._grow(len(name) + len(value) + _BESIDES)
        if self._in_head:
            super().on_header(name, value.rstrip(b" \t"))

    def _grow(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MOST_HEAD:
            raise NotServed(f"more than {MOST_HEAD} bytes of a head, or of a request that has to wait")

    def on_headers_complete(self) -> None:
        """Refuse what two readers could understand in two ways, and begin to answer."""
        self._in_head, self._unused_bytes = False, 0
        if self.parser.get_http_version() not in _VERSIONS:
            raise NotServed("HTTP/1.1 and HTTP/1.0 are spoken here")
        if not self.url.startswith(b"/") or b"#" in self.url:
            raise NotServed("the target must be a path")
        for name, value in self.headers:
            if name == b"transfer-encoding" and value.lower() != b"chunked":
                raise NotServed("a transfer coding other than chunked")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._unused_bytes = 0
        if self.pipeline:
            self._grow(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._unused_bytes = 0
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Stop the clock when a request is answered."""
        self._answered = cycle
        self._stop_waiting()
        super()._start_asgi_task(cycle, app)

    async def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole response in one piece, so that its client wakes up once."""
        cycle = self._answered
        assert cycle is not None
        if self.flow.write_paused:
            await self.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        lines = [b"%b: %b\r\n" % header for header in headers]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        self.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", body)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def on_response_complete(self) -> None:
        """Start the clock again."""
        self._wait_for_request()
        super().on_response_complete()

    def _wait_for_request(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(self.app_state["request_s"], self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, in the format of every refusal; there is no place for it amid another answer."""
        if self.idle or (self._answered is self.cycle and not self.cycle.response_started):
            body = json.dumps({"error": {"code": "bad_request", "message": msg}}).encode()
            lines = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
            self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{lines}\r\n".encode() + body)
            self.transport.close()
        else:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no longer, and tell all that is answered or waits."""
        if self.gone is not None and not self.idle:
            self.gone.set()
        self._stop_waiting()
        self._connections.left(self)
        if self._answered is not None and self._answered is not self.cycle:
            self._answered.disconnected = not self._answered.response_complete
            self._answered.message_event.set()
        super().connection_lost(exc)


class OwnUser(Timely):
    """Serves only the gateway's own user, whatever the socket's permissions have become."""

    def connection_made(self, transport: Any) -> None:
        """Drop another user's."""
        super().connection_made(transport)
        if not same_user(transport.get_extra_info("socket")):
            self.drop()
