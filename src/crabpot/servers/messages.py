"""A server's output as messages of the protocol. To the gateway every byte of it is hostile, and there is an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification
from mcp_types.jsonrpc import jsonrpc_message_adapter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_types import JSONRPCMessage

# What the gateway listens to; whatever else a server announces is dropped unheard.
_CHANGES = (f"notifications/{what}/list_changed" for what in ("tools", "prompts", "resources"))
_HEARD = frozenset({"notifications/progress", *_CHANGES})
# What a server may say for each call that it is sent, and between two of them.
_MOST_MESSAGES, _MOST_BYTES, _MOST_GARBAGE = 10_000, 64 << 20, 100
_LONGEST_TAIL = 2048
# JSON writes a character of a result in up to six, and a picture in base64.
_LONGER, _MORE = 4, 1 << 20


class Misbehaved(Exception):
    """A server went beyond what any honest one does, and is ended."""


class Allowance:
    """How much one server may still say for the call that it was sent last, and what of it is heard."""

    def __init__(self) -> None:
        self._messages = self._bytes = self._garbage = 0

    def new_call(self) -> None:
        """Reset it to what one call may take."""
        self._messages = self._bytes = self._garbage = 0

    def count_bytes(self, count: int) -> None:
        """Take that many bytes of it, or raise Misbehaved."""
        self._bytes += count
        if self._bytes > _MOST_BYTES:
            raise Misbehaved(f"it wrote more than {_MOST_BYTES >> 20} MiB for one call")

    def count_garbage(self) -> None:
        """Take one message that is none, or raise Misbehaved."""
        self._garbage += 1
        if self._garbage > _MOST_GARBAGE:
            raise Misbehaved("it speaks no MCP: a hundred lines of it are none")

    def hears(self, message: JSONRPCMessage) -> bool:
        """Take one message, and return whether the gateway listens to it; Misbehaved if there are too many."""
        self._messages += 1
        if self._messages > _MOST_MESSAGES:
            raise Misbehaved(f"it sent more than {_MOST_MESSAGES} messages for one call")
        return not isinstance(message, JSONRPCNotification) or message.method in _HEARD


class Messages:
    """Reads the lines of one server, and keeps the last of what it printed as errors."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._buffer = bytearray()
        self.allowance = Allowance()
        self._tail = b""

    @property
    def last_words(self) -> str:
        """Return the end of what it printed to standard error."""
        return self._tail.decode("utf-8", "replace").strip()

    def complained(self, data: bytes) -> None:
        """Take a piece of its standard error."""
        self.allowance.count_bytes(len(data))
        self._tail = (self._tail + data)[-_LONGEST_TAIL:]

    def feed(self, data: bytes) -> Iterator[SessionMessage]:
        """Take a piece of its standard output, and yield the messages that end in it."""
        self.allowance.count_bytes(len(data))
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
            self.allowance.count_garbage()
            return None
        return SessionMessage(message) if self.allowance.hears(message) else None

    def _check_length(self, length: int) -> None:
        if length > self._longest:
            raise Misbehaved(f"it sent a message of more than {self._longest} bytes (limits.output)")


def longest(output: int) -> int:
    """Return how long one message may be where a result has `output` bytes: JSON, and base64, take more."""
    return output * _LONGER + _MORE
