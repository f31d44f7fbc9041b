"""A runner's answer, checked field by field: codes and text cross the wire, never types."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

from crabpot.model import Failure, ToolResult
from crabpot.runner.core.frames import FrameError

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from crabpot.model import Place

    Output = bytes | bytearray

CODES = frozenset(
    "denied approval_denied approval_timeout invalid_arguments not_found is_directory not_a_directory not_a_file "
    "exists permission_denied read_only no_match ambiguous_match conflict outside timeout cancelled output_limit "
    "memory_limit process_limit disk_limit sandbox_lost sandbox_unavailable internal".split()
)

# What a runner may claim of its own calls. Only the gateway knows who decided, and whether the sandbox lives.
FROM_RUNNER = CODES - {"denied", "approval_denied", "approval_timeout", "sandbox_lost", "sandbox_unavailable"}

_HIGHEST_EXIT = 255
# No tool's data is a quarter as deep; deeper data would exhaust the stack of whoever writes it as JSON again.
_DEEPEST = 32
# What holds nothing else; of these only text can have anything to replace in it.
_SCALARS = frozenset({str, int, bool, float, type(None)})


class BadReply(FrameError):
    """An answer that no runner of ours gives; the sandbox that sent it is lost."""


class Reply(NamedTuple):
    """What a runner said of one call; a tuple, since every call makes one, and a frozen dataclass takes longer."""

    success: bool
    stdout: str
    stderr: str
    exit_code: int | None
    error: tuple[str, str] | None
    truncated: bool
    data: dict[str, Any] | None

    def as_result(self, call_id: str, place: Place, duration_ms: float) -> ToolResult:
        """Return it as the result of the call that it answers."""
        return ToolResult(
            id=call_id,
            success=self.success,
            stdout=self.stdout,
            stderr=self.stderr,
            exit_code=self.exit_code,
            error=None if self.error is None else Failure(code=self.error[0], message=self.error[1]),
            truncated=self.truncated,
            data=self.data,
            place=place,
            duration_ms=duration_ms,
        )


def check_runner(header: dict[str, Any], payload: bytes, stdout: Output, stderr: Output) -> Reply:
    """Read a runner's answer, which may not speak for the gateway, nor call a failure a success."""
    reply = check(header, payload, stdout, stderr, FROM_RUNNER)
    if reply.success and (reply.error is not None or reply.exit_code):
        raise BadReply("success contradicts the other fields")
    return reply


def check(
    header: dict[str, Any], payload: bytes, stdout: Output, stderr: Output, codes: AbstractSet[str] = CODES
) -> Reply:
    """Read an answer; `stdout` and `stderr` are what came ahead of it in frames of their own."""
    success, truncated = header.get("success"), header.get("truncated", False)
    if type(success) is not bool or type(truncated) is not bool:
        raise BadReply("success or truncated is not true or false")
    exit_code = header.get("exit_code")
    if exit_code is not None and (type(exit_code) is not int or not 0 <= exit_code <= _HIGHEST_EXIT):
        raise BadReply("exit_code is not a number from 0 to 255")
    data = header.get("data")
    if data is not None:
        if type(data) is not dict:
            raise BadReply("data is not an object")
        data = clean(data)
    if payload:
        data = {} if data is None else data
        binary = data.get("encoding") == "base64"
        data["content"] = base64.b64encode(payload).decode("ascii") if binary else payload.decode("utf-8", "replace")
    error = header.get("error")
    return Reply(
        success=success,
        stdout=_text(header.get("stdout", ""), stdout),
        stderr=_text(header.get("stderr", ""), stderr),
        exit_code=exit_code,
        error=None if error is None else _error(error, codes),
        truncated=truncated,
        data=data,
    )


def unsendable(error: FrameError) -> dict[str, Any]:
    """Return the answer to a call whose arguments do not fit into a frame."""
    message = f"the arguments do not fit into one frame: {error}"
    return {"success": False, "error": {"code": "invalid_arguments", "message": message}}


def _error(value: Any, codes: AbstractSet[str]) -> tuple[str, str]:
    code = value.get("code") if type(value) is dict else None
    if type(code) is not str or code not in codes:
        raise BadReply("error has no code that a runner may give")
    return code, _text(value.get("message", ""))


def _text(value: Any, ahead: Output = b"") -> str:
    if type(value) is not str:
        raise BadReply("text is not a string")
    text: str = value if value.isascii() else clean(value)
    return ahead.decode("utf-8", "replace") + text if ahead else text


def clean(value: Any, depth: int = 0) -> Any:
    """Replace lone surrogates, which JSON can spell and no door could print or send on."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if kind is not dict and kind is not list:
        return value
    if depth >= _DEEPEST:
        raise BadReply(f"data nested deeper than {_DEEPEST}")
    items, keys = (value.values(), value) if kind is dict else (value, ())
    # Nearly all is plain, which is found out without a step for each of what is in it.
    if _SCALARS.issuperset(map(type, items)) and "".join([*keys, *map(str, items)]).isascii():
        return value
    if kind is list:
        return [clean(item, depth + 1) for item in value]
    return {clean(key): clean(item, depth + 1) for key, item in value.items()}
