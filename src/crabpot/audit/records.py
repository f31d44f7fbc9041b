"""What is written of a call: who, what, where, why and how it ended; never a file's content or a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crabpot.model import ToolCall, ToolResult, Verdict

_LONGEST = 4096

# Arguments whose text is shown. Of all others only the size is: they hold contents, input and environment.
_SHOWN = frozenset({"command", "path", "pattern", "glob", "cwd", "action", "id", "timeout", "background"})


def of_intent(call: ToolCall, agent: str, verdict: Verdict[Any]) -> dict[str, Any]:
    """Describe a call that is about to touch the host."""
    return {"kind": "intent", **_who(call, agent, verdict)}


def of_call(call: ToolCall, agent: str, result: ToolResult, verdict: Verdict[Any]) -> dict[str, Any]:
    """Describe a call that has ended."""
    return {
        "kind": "call",
        **_who(call, agent, verdict),
        "place": result.place.value,
        "success": result.success,
        "exit_code": result.exit_code,
        "error": None if result.error is None else result.error.code,
        "sizes": {"stdout": len(result.stdout), "stderr": len(result.stderr)},
        "truncated": result.truncated,
        "duration_ms": result.duration_ms,
    }


def _who(call: ToolCall, agent: str, verdict: Verdict[Any]) -> dict[str, Any]:
    return {
        "call": call.id,
        "session": _text(call.session),
        "agent": agent,
        "sender": call.sender,
        "tool": call.tool,
        "args": {_text(name): _argument(name, value) for name, value in call.args.items()},
        "because": verdict.because,
        "rule": verdict.source,
    }


def _argument(name: str, value: Any) -> Any:
    if name in _SHOWN:
        return _text(value) if isinstance(value, str) else value if isinstance(value, int | float) else None
    if isinstance(value, dict):
        return {"names": sorted(_text(str(key)) for key in value)[:64]}
    return {"size": len(value)} if isinstance(value, str | bytes) else None


def _text(value: str) -> str:
    """Keep it printable and short; halves of surrogate pairs cannot be stored."""
    whole = value.encode("utf-8", "replace").decode("utf-8")
    return whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}… ({len(whole)} characters)"
