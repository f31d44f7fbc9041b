"""One client of a serving gateway, and its calls.

Clients speak the frames of the wire, so that streaming, flow control and cancellation are the same on both hops.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabpot.decide.scope import PRINCIPAL, called_with, principal_of
from crabpot.decide.sessions import LONGEST, parse
from crabpot.doors.late_import import imported
from crabpot.doors.local.client_call import ClientCall
from crabpot.doors.local.questions import Asker
from crabpot.errors import CrabpotError, SessionError
from crabpot.runner.core.frames import FrameError, FrameReader, encode
from crabpot.sandboxes.callers import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.doors.local.server import Inquiries
    from crabpot.gateway import Gateway
    from crabpot.wire.in_flight import Sink

_READ = 256 * 1024
_MOST_CALLS = 256
_LONGEST_ID = 64
# Of what a client says of itself: it must be this gateway's own.
_IDENTITY = ("config", "code")


def load_mcp() -> tuple[Any, Any]:
    """Import what an MCP client would wait for."""
    from crabpot.doors.mcp import server, stdio  # noqa: PLC0415

    return server, stdio


class Connection:
    """One client; when it disconnects, its calls are cancelled."""

    def __init__(
        self,
        gateway: Gateway,
        inquiries: Inquiries,
        ready: Mapping[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._gateway = gateway
        self._inquiries = inquiries
        self._ready = dict(ready)
        # What a caller of a lingering gateway brings, by name; None at any other gateway.
        self._brings = None if "brings" not in ready else frozenset(ready["brings"])
        self._kin = True
        self._reader = reader
        self._writer = writer
        self._calls: dict[str, ClientCall] = {}
        self._frames = FrameReader()
        self.asker = Asker(self.send)

    async def run(self) -> None:
        """Serve until the client disconnects or breaks the protocol."""
        try:
            while data := await self._reader.read(_READ):
                for header, payload in self._frames.feed(data):
                    self._take(header, payload)
                    if "op" not in header:
                        # A call: this client's next one begins when every other client has had its turn.
                        await asyncio.sleep(0)
                # Nothing more is read from a client that reads no answers: they would pile up in our memory.
                await self._writer.drain()
        except (FrameError, ConnectionError):
            pass
        finally:
            tasks = [call.task for call in self._calls.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, header: dict[str, Any], payload: bytes) -> None:
        kind, call_id = header.get("op"), header.get("id")
        if kind == "hello":
            known = [name for name in _IDENTITY if name in self._ready]
            self._kin = all(header.get(name, self._ready[name]) == self._ready[name] for name in known)
            self.send(self._ready)
            return
        if not isinstance(call_id, str) or not 0 < len(call_id) <= _LONGEST_ID:
            raise FrameError("a frame without an id")
        if kind == "answer":
            self.asker.take(header)
            return
        call = self._calls.get(call_id)
        if kind is None:
            if call is not None or len(self._calls) >= _MOST_CALLS:
                raise FrameError("an id that is in use, or too many calls at once")
            self._start(call_id, header)
        elif call is not None:
            call.take(kind, header, payload)

    def _start(self, call_id: str, header: dict[str, Any]) -> None:
        call = ClientCall(self, call_id, header)
        self._calls[call_id] = call
        # The call is charged from its first step on, and what is read next to whoever this client called for last.
        PRINCIPAL.set(self._principal(header))
        call.task = asyncio.create_task(self._run(call, header))
        call.task.add_done_callback(lambda _: self._calls.pop(call_id, None))

    def _principal(self, header: dict[str, Any]) -> str | None:
        """Return who is behind a call, or None for what the gateway's own user inquires."""
        session = header.get("session")
        if "inquiry" in header or not isinstance(session, str):
            return None
        try:
            return principal_of(parse(session, default_agent=self._gateway.settings.default_agent).agent)
        except SessionError:
            return None

    async def _run(self, call: ClientCall, header: dict[str, Any]) -> None:
        try:
            await self._answer(call, header)
        except SessionError as error:
            call.fail("invalid_arguments", str(error))
        except CrabpotError as error:
            call.fail("internal", str(error))
        except ConnectionError:
            pass  # The client disconnected while it was being answered.
        except asyncio.CancelledError:
            call.fail("cancelled", "the call was cancelled")
        except Exception as error:  # noqa: BLE001  a bug in one call must not leave its client waiting for ever
            call.fail("internal", f"{type(error).__name__}: {error}")

    async def _answer(self, call: ClientCall, header: dict[str, Any]) -> None:
        args, session, sender = header.get("args"), header.get("session"), header.get("sender")
        args = args if isinstance(args, dict) else {}
        if "inquiry" in header:
            answer = await self._inquiries(str(header["inquiry"]), args)
            self.send({"id": call.id, "success": True, "data": {"answer": answer}})
            return
        if not self._kin:
            raise CrabpotError("this gateway has another configuration or another version than its client")
        if not isinstance(session, str):
            raise SessionError("a session key is text")
        if sender is not None and (not isinstance(sender, str) or len(sender) > LONGEST):
            raise SessionError(f"a sender is text of at most {LONGEST} characters")
        if "mcp" in header:
            with called_with(self._variables(header)):
                await self._speak_mcp(call, session, header["mcp"])
            self.send({"id": call.id, "success": True, "exit_code": 0})
            return
        # What is not plainly allowed is kept off the host.
        host_allowed = header.get("host_allowed", True) is True
        with called_with(self._variables(header)):
            result = await self._gateway.call(
                session,
                str(header.get("tool")),
                args,
                sender=sender,
                streams=call.streams(),
                host_allowed=host_allowed,
            )
        await call.answer(result)

    def _variables(self, header: dict[str, Any]) -> dict[str, str] | None:
        return None if self._brings is None else checked(header.get("environ"), self._brings)

    async def _speak_mcp(self, call: ClientCall, session: str, asked: Any) -> None:
        """Serve an MCP client whose messages a thin client passes on, until the end of its input."""
        server, stdio = await imported(load_mcp)
        asked = asked if isinstance(asked, dict) else {}
        sender = asked.get("sender")
        if sender is not None and (not isinstance(sender, str) or len(sender) > LONGEST):
            raise SessionError(f"a sender is text of at most {LONGEST} characters")
        elicits, structured = (asked.get(name) is True for name in ("elicits", "structured"))
        caller = server.Caller(session=session, sender=sender, name="stdio", elicits=elicits, structured=structured)
        streams = call.streams()
        if streams.source is None or streams.sink is None:
            raise FrameError("MCP needs both streams")
        await stdio.talk(self._gateway, caller, streams.source, _Messages(streams.sink))

    def send(self, header: dict[str, Any], payload: bytes | memoryview = b"") -> None:
        """Send one frame; it is dropped if the client is gone."""
        if not self._writer.is_closing():
            self._writer.write(encode(header, payload))

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent."""
        await self._writer.drain()


class _Messages:
    """The messages of an MCP server, on their way to its client."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def write(self, text: str) -> None:
        """Send some text at the client's pace."""
        await self._sink("stdout", text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Do nothing: nothing is buffered."""
