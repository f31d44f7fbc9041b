"""Run a host tool: a callable registered by the embedding program. Whatever it raises becomes a result."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError
from crabpot.model import Place, ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.model import ToolCall

    HostTool = Callable[..., Any | Awaitable[Any]]


async def run(call: ToolCall, tool: HostTool | None) -> ToolResult:
    """Call the tool with the arguments by name, and await what it returns if that is awaitable."""
    if tool is None:
        return call.failed("not_found", f"no program has registered the host tool {call.tool}")
    try:
        inspect.signature(tool).bind(**call.args)
    except TypeError as error:
        return call.failed("invalid_arguments", f"{call.tool}: {error}")
    except ValueError:
        # Written in C without a signature: it reports wrong arguments itself.
        pass
    try:
        answer = tool(**call.args)
        data = await answer if inspect.isawaitable(answer) else answer
    except CrabpotError as error:
        return call.failed("internal", f"{call.tool}: {error}", Place.HOST)
    except Exception as error:  # noqa: BLE001  a fault in somebody else's tool must not end the gateway
        return call.failed("internal", f"{call.tool}: {type(error).__name__}: {error}", Place.HOST)
    shaped = data if isinstance(data, dict) or data is None else {"value": data}
    return ToolResult(id=call.id, success=True, data=shaped, place=Place.HOST, duration_ms=call.took_ms())
