"""The frames of the wire, for both ends: one line of JSON and, where it says `"bytes": n`, n raw bytes.

Either end may be fed by an attacker: anything that is not a frame, or is larger than a frame may be, is a FrameError,
and the work done for a stream stays proportional to its length, however it is cut into reads.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MAX_LINE = 1 << 20
MAX_PAYLOAD = 1 << 20
# How much one side may send of a call's output, or input, before the other acknowledges it.
WINDOW = 1 << 20
# The receiver acknowledges once it took this much.
ACK_EVERY = 64 << 10
# An upcall is begun by whatever runs inside, so it can make the gateway hold less: a quarter, and only so many at
# once.
UPCALL_WINDOW = 256 << 10
MAX_UPCALLS = 256
# An upcall begins with raw bytes, which take as much memory as they are long: the argv of a host command.
MAX_QUESTION = 136 << 10

_MAX_DIGITS = 20
# Up to here copying what came once more costs less than keeping it in a buffer.
_SHORT = 64 << 10


class FrameError(Exception):
    """What came is not a frame. Nothing after it on the stream can be trusted."""


def _refuse_constant(name: str) -> float:
    raise ValueError("%s is not JSON" % name)


def _parse_int(digits: str) -> int:
    # int() takes quadratic time on old Pythons: a line of a million digits would hold the reader for seconds.
    if len(digits) > _MAX_DIGITS:
        raise ValueError("a number of %d digits" % len(digits))
    return int(digits)


def _parse_float(digits: str) -> float:
    value = float(digits)
    if value - value != 0:  # 1e999 reads as infinity, and an infinite time limit is no limit.
        raise ValueError("a number out of range")
    return value


class _ScannerContext:
    """What the C scanner of `_json` needs from its decoder."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = staticmethod(_parse_float)
    parse_int = staticmethod(_parse_int)
    parse_constant = staticmethod(_refuse_constant)


def _unserialisable(value: object) -> object:
    raise TypeError("%s does not travel in a frame" % type(value).__name__)


def _c_codec() -> tuple[Callable[[str, int], tuple[Any, int]], Callable[[Any], str]]:
    # `json` imports `re` and `enum`, a tenth of the runner's whole start-up; its C half alone is free. That half is
    # private to CPython, so it is tested before it is trusted.
    import _json  # noqa: PLC0415

    context: Any = _ScannerContext()
    scan = _json.make_scanner(context)
    encoder: Any = _json.make_encoder(
        None, _unserialisable, _json.encode_basestring_ascii, None, ":", ",", False, False, False
    )

    def dump(value: Any) -> str:
        return "".join(encoder(value, 0))

    sample = {"a": [1, 0.5, None, True, "\u00e9\n"]}
    text = dump(sample)
    if scan(text, 0) != (sample, len(text)):
        raise ImportError("another _json")
    return scan, dump


def _portable_codec() -> tuple[Callable[[str, int], tuple[Any, int]], Callable[[Any], str]]:
    import json  # noqa: PLC0415

    decoder: Any = json.JSONDecoder(parse_float=_parse_float, parse_int=_parse_int, parse_constant=_refuse_constant)
    encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
    return decoder.scan_once, encoder.encode


try:
    _scan, _dump = _c_codec()
except (ImportError, AttributeError, TypeError):
    _scan, _dump = _portable_codec()


def encode_header(header: dict[str, Any], payload_size: int = 0) -> bytes:
    """Return the line of a frame. It is ASCII, so lone surrogates (names that are not UTF-8) survive the trip."""
    if payload_size:
        header = {**header, "bytes": payload_size}
    try:
        line = _dump(header).encode("ascii") + b"\n"
    except (ValueError, TypeError, RecursionError) as error:
        raise FrameError("not sent: %s" % error) from error
    if len(line) > MAX_LINE:
        raise FrameError("not sent: a line of %d bytes, the maximum is %d" % (len(line), MAX_LINE))
    if payload_size > MAX_PAYLOAD:
        raise FrameError("not sent: a payload of %d bytes, the maximum is %d" % (payload_size, MAX_PAYLOAD))
    return line


def encode(header: dict[str, Any], payload: bytes | memoryview = b"") -> bytes:
    """Return a whole frame, ready to send."""
    return encode_header(header, len(payload)) + payload


def parse(line: bytes | bytearray) -> tuple[dict[str, Any], int]:
    """Return the header of a line, and the size of the payload after it."""
    try:
        text = line.decode("utf-8")
        header, end = _scan(text, 0)
    # SystemError: CPython's scanner fails without an exception if `json.decoder`, which defines it, was never imported.
    except (ValueError, StopIteration, RecursionError, SystemError) as error:
        raise FrameError("a line that is not JSON") from error
    if end != len(text) and text[end:].strip(" \t\r"):
        raise FrameError("a line with something after its JSON")
    if type(header) is not dict:
        raise FrameError("a line that is not an object")
    if "bytes" not in header:
        return header, 0
    size = header["bytes"]
    if type(size) is not int or not 0 <= size <= MAX_PAYLOAD:
        raise FrameError("a payload size that is not a number from 0 to %d" % MAX_PAYLOAD)
    return header, size


class FrameReader:
    """Cuts a byte stream into frames. After a FrameError it returns nothing more.

    A line of more than `short` bytes must begin as an `answer`: once it is parsed, a byte may take seventy of memory.
    """

    def __init__(self, short: int = MAX_LINE, answer: bytes = b"") -> None:
        self._short = short
        self._answer = answer
        self._buffer = bytearray()
        self._scanned = 0
        self._header: dict[str, Any] | None = None
        self._payload_size = 0
        self._broken = False

    @property
    def partial(self) -> bool:
        """Return whether an incomplete frame has begun."""
        return bool(self._buffer) or self._header is not None

    def feed(self, data: bytes | memoryview) -> list[tuple[dict[str, Any], bytes]]:
        """Return the frames that `data` completes, in order."""
        if self._broken:
            raise FrameError("the stream is broken")
        try:
            if self._header is None and not self._buffer and len(data) <= _SHORT:
                # What comes at once is nearly always one frame, and nothing of it is kept.
                line, newline, rest = bytes(data).partition(b"\n")
                if newline:
                    if len(line) > self._short:
                        self._check_long(line)
                    header, size = parse(line)
                    if len(rest) == size:
                        return [(header, rest)]
                    self._header, self._payload_size = header, size
                    data = rest
            return self._cut(data)
        except BaseException:
            self._broken = True
            raise

    def _check_long(self, line: bytes | bytearray) -> None:
        # What calls itself an answer and is something else is parsed once, and dropped.
        if not line.startswith(self._answer):
            raise FrameError("a line of more than %d bytes that is not an answer" % self._short)

    def _cut(self, data: bytes | memoryview) -> list[tuple[dict[str, Any], bytes]]:
        buffer = self._buffer
        buffer += data
        frames: list[tuple[dict[str, Any], bytes]] = []
        start = 0
        while True:
            if self._header is None:
                end = buffer.find(b"\n", start + self._scanned)
                length = (len(buffer) if end < 0 else end + 1) - start
                if length > MAX_LINE:
                    raise FrameError("a line of more than %d bytes" % MAX_LINE)
                if end < 0:
                    self._scanned = length
                    break
                self._scanned = 0
                line = buffer[start:end]
                if len(line) > self._short:
                    self._check_long(line)
                self._header, self._payload_size = parse(line)
                start = end + 1
            end = start + self._payload_size
            if len(buffer) < end:
                break
            payload = b""
            if end > start:
                with memoryview(buffer) as view:  # One copy; a slice of the buffer itself would make two.
                    payload = bytes(view[start:end])
            frames.append((self._header, payload))
            self._header = None
            start = end
        # Once per read, not once per frame; a bytearray drops its front without moving the rest.
        del buffer[:start]
        return frames
