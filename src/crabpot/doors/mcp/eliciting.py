"""What a client shows when it is asked for an approval, and what its answer means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from crabpot.approvals.requests import Answer, denied
from crabpot.doors.cli.terminal.question import lines

if TYPE_CHECKING:
    from crabpot.approvals.requests import Request

_DENY, _ONCE, _SESSION = "deny", "allow once", "allow for this session"


def schema(request: Request) -> dict[str, Any]:
    """Return what may be answered."""
    decisions = [_DENY, _ONCE, *([_SESSION] if request.lasting else [])]
    return {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "title": "May it?", "enum": decisions, "default": _DENY},
            "reason": {"type": "string", "title": "Why not", "description": "the agent is told"},
        },
        "required": ["decision"],
    }


def message(request: Request) -> str:
    """Tell all that the terminal would show."""
    return "\n".join(lines(request))


def question(request: Request) -> ElicitRequest:
    """Ask in the words of the protocol."""
    return ElicitRequest(params=ElicitRequestFormParams(message=message(request), requested_schema=schema(request)))


def answer(given: object, by: str) -> Answer:
    """Read what came back. Whatever is not an allowance to the letter is a denial."""
    content = given.content if isinstance(given, ElicitResult) and given.action == "accept" else None
    decision, reason = (content or {}).get("decision"), (content or {}).get("reason")
    if decision == _ONCE:
        return Answer(allowed=True, by=by)
    if decision == _SESSION:
        return Answer(allowed=True, grant="session", by=by)
    return denied(by, reason if isinstance(reason, str) else None)
