"""The arguments that the gateway itself reads: the time limit, and what is too large for a frame."""

from __future__ import annotations

import base64
import binascii
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from crabpot.model import ToolCall
    from crabpot.settings import AgentSettings
    from crabpot.wire.calls import Source

# Larger texts are sent beside the frame, not in it.
_INLINE = 64 * 1024
_BESIDE = {"write": "content", "exec": "stdin"}
# The runner ends at a longer number, and the sandbox with it.
_LARGEST = 10**18


class InvalidCall(ValueError):
    """The arguments are invalid; nothing ran."""


def time_limit(args: Mapping[str, Any], agent: AgentSettings) -> float:
    """Return a call's time limit in seconds: its own, up to the ceiling, else the agent's."""
    limits = agent.sandbox.limits
    asked = args.get("timeout")
    if asked is None:
        return limits.time_limit
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:
        raise InvalidCall("timeout must be a number of seconds above 0")
    if asked > limits.time_ceiling:
        where = agent.source("sandbox.limits.timeCeiling")
        raise InvalidCall(f"timeout is above timeCeiling, {limits.time_ceiling:g} s ({where})")
    return float(asked)


def split_input(call: ToolCall) -> tuple[dict[str, Any], Source | None]:
    """Return the arguments without a large content or input, and that: it is sent as raw bytes beside the frame."""
    _check_numbers(call.args)
    name = _BESIDE.get(call.tool)
    text = call.args.get(name) if name else None
    # The time limit is a field of the frame, whatever the tool.
    rest = dict(call.args)
    rest.pop("timeout", None)
    if name is None or not isinstance(text, str) or len(text) <= _INLINE:
        return rest, None
    del rest[name]
    encoding = rest.pop("encoding", None) if call.tool == "write" else None
    return rest, _pieces(_decoded(text, name, encoding))


def _check_numbers(args: Mapping[str, Any]) -> None:
    left: list[Any] = [value for value in args.values() if type(value) is not str]
    while left:
        value = left.pop()
        if type(value) is dict:
            left += value.values()
        elif type(value) is list:
            left += value
        elif (type(value) is int and abs(value) > _LARGEST) or (type(value) is float and not math.isfinite(value)):
            raise InvalidCall(f"a number in the arguments is above {_LARGEST:g} or not finite")


def _decoded(text: str, name: str, encoding: Any) -> bytes:
    if encoding not in (None, "utf-8", "base64"):
        raise InvalidCall("encoding must be one of: utf-8, base64")
    try:
        return base64.b64decode(text, validate=True) if encoding == "base64" else text.encode("utf-8")
    except (binascii.Error, ValueError):
        raise InvalidCall(f"{name} is not valid {encoding or 'UTF-8'}") from None


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data
