"""One connection of HTTP: cut off if it does not send its request in time, or is not the gateway's own user's."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from crabpot.decide.scope import OPERATOR, PRINCIPAL
from crabpot.doors.http.access.peers import uid_of
from crabpot.doors.local.server import same_user
from crabpot.scheduling.fair_loop import FairLoop

if TYPE_CHECKING:
    import asyncio

    from crabpot.doors.http.access.connections import Connections
    from crabpot.doors.inflight import Sign


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


class Timely(H11Protocol):
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
        return self.cycle is None or self.cycle.response_complete

    @property
    def has_all(self) -> bool:
        """Whether all of the request that is being answered has come."""
        return self.cycle is not None and not self.cycle.more_body

    def listen_on(self) -> None:
        """Notice a disconnect, even if the next request began to come already."""
        self.flow.resume_reading()

    def drop(self) -> None:
        """Close it at once."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request. Whoever keeps the loop busy with large ones is read from in its turn."""
        whose = self.principal
        if whose is None:
            super().data_received(data)
            return
        before, began = PRINCIPAL.set(whose), time.thread_time()
        try:
            super().data_received(data)
        finally:
            PRINCIPAL.reset(before)
        if (
            whose != OPERATOR
            and isinstance(self.loop, FairLoop)
            and self.loop.charge(whose, time.thread_time() - began, self.flow.end_rest)
        ):
            self.flow.rest()

    def handle_events(self) -> None:
        """Stop the clock when a request has come."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()

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
        """Refuse what is not HTTP, in the format of every refusal."""
        body = json.dumps({"error": {"code": "bad_request", "message": msg}}).encode()
        lines = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n"
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{lines}\r\n".encode() + body)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no longer."""
        if self.gone is not None and not self.idle:
            self.gone.set()
        self._stop_waiting()
        self._connections.left(self)
        super().connection_lost(exc)


class OwnUser(Timely):
    """Serves only the gateway's own user, whatever the socket's permissions have become."""

    def connection_made(self, transport: Any) -> None:
        """Drop another user's."""
        super().connection_made(transport)
        if not same_user(transport.get_extra_info("socket")):
            self.drop()
