"""A server's output as messages of the protocol. To the gateway every byte of it is hostile, and there is an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification
from mcp_types.jsonrpc import jsonrpc_message_adapter

if TYPE_CHECKING:
    from collections.abc import Iterator

# What the gateway listens to; whatever else a server announces is dropped unheard.
_HEARD = frozenset({"notifications/progress", "notifications/tools/list_changed"})
# What a server may say for each call that it is sent, and between two of them.
_MOST_MESSAGES, _MOST_BYTES, _MOST_GARBAGE = 10_000, 64 << 20, 100
_LONGEST_TAIL = 2048


class Misbehaved(Exception):
    """A server went beyond what any honest one does, and is ended."""


class Messages:
    """Reads the lines of one server, and keeps the last of what it printed as errors."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._buffer = bytearray()
        self._messages = self._bytes = self._garbage = 0
        self._tail = b""

    @property
    def last_words(self) -> str:
        """Return the end of what it printed to standard error."""
        return self._tail.decode("utf-8", "replace").strip()

    def new_call(self) -> None:
        """Reset how much may be sent to what one call may take."""
        self._messages = self._bytes = self._garbage = 0

    def complained(self, data: bytes) -> None:
        """Take a piece of its standard error."""
        self._count_bytes(data)
        self._tail = (self._tail + data)[-_LONGEST_TAIL:]

    def feed(self, data: bytes) -> Iterator[SessionMessage]:
        """Take a piece of its standard output, and yield the messages that end in it."""
        self._count_bytes(data)
        self._buffer += data
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._check_length(len(line))
            message = self._message(line)
            if message is not None:
                yield message
        self._check_length(len(self._buffer))

    def _message(self, line: bytes) -> SessionMessage | None:
        if not line.strip():
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValueError, RecursionError):
            self._garbage += 1
            if self._garbage > _MOST_GARBAGE:
                raise Misbehaved("it speaks no MCP: a hundred lines of it are none") from None
            return None
        self._messages += 1
        if self._messages > _MOST_MESSAGES:
            raise Misbehaved(f"it sent more than {_MOST_MESSAGES} messages for one call")
        if isinstance(message, JSONRPCNotification) and message.method not in _HEARD:
            return None
        return SessionMessage(message)

    def _count_bytes(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            raise Misbehaved(f"it wrote more than {_MOST_BYTES >> 20} MiB for one call")

    def _check_length(self, length: int) -> None:
        if length > self._longest:
            raise Misbehaved(f"it sent a message of more than {self._longest} bytes (limits.output)")
