"""The form that a client shows for an approval, and what its answer means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from crabpot.approvals.requests import Answer, denied
from crabpot.doors.cli.terminal.question import lines

if TYPE_CHECKING:
    from crabpot.approvals.requests import Request

_DENY, _ONCE, _SESSION = "deny", "allow once", "allow for this session"


def schema(request: Request) -> dict[str, Any]:
    """Return the schema of the answer."""
    decisions = [_DENY, _ONCE, *([_SESSION] if request.lasting else [])]
    return {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "title": "Allow it?", "enum": decisions, "default": _DENY},
            "reason": {"type": "string", "title": "Reason", "description": "the agent sees it"},
        },
        "required": ["decision"],
    }


def message(request: Request) -> str:
    """Return all that the terminal would show."""
    return "\n".join(lines(request))


def question(request: Request) -> ElicitRequest:
    """Return the question as a protocol message."""
    return ElicitRequest(params=ElicitRequestFormParams(message=message(request), requested_schema=schema(request)))


def answer(given: object, by: str) -> Answer:
    """Parse what came back. Whatever is not exactly an approval is a denial."""
    content = given.content if isinstance(given, ElicitResult) and given.action == "accept" else None
    decision, reason = (content or {}).get("decision"), (content or {}).get("reason")
    if decision == _ONCE:
        return Answer(allowed=True, by=by)
    if decision == _SESSION:
        return Answer(allowed=True, grant="session", by=by)
    return denied(by, reason if isinstance(reason, str) else None)
