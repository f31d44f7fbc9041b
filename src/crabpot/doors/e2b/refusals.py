"""The API's own errors: one format for REST and files, one for Connect, and a code for each of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from crabpot.doors.http.access.refusals import Refusal

if TYPE_CHECKING:
    from starlette.responses import Response

    from crabpot.model import ToolResult

# Connect's codes, each with the status that its specification gives it.
STATUS = {
    "canceled": 499,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "unauthenticated": 401,
}
_CODE = {
    408: "deadline_exceeded",
    413: "resource_exhausted",
    415: "invalid_argument",
    421: "permission_denied",
    502: "unavailable",
}

# The codes of results (docs/doors.md), as Connect says them.
_OF_RESULTS = {
    "denied": "permission_denied",
    "approval_denied": "permission_denied",
    "approval_timeout": "permission_denied",
    "permission_denied": "permission_denied",
    "read_only": "permission_denied",
    "outside": "permission_denied",
    "invalid_arguments": "invalid_argument",
    "is_directory": "invalid_argument",
    "not_a_directory": "invalid_argument",
    "not_a_file": "invalid_argument",
    "conflict": "failed_precondition",
    "not_found": "not_found",
    "exists": "already_exists",
    "timeout": "deadline_exceeded",
    "cancelled": "canceled",
    "output_limit": "resource_exhausted",
    "memory_limit": "resource_exhausted",
    "process_limit": "resource_exhausted",
    "disk_limit": "resource_exhausted",
    "sandbox_lost": "unavailable",
    "sandbox_unavailable": "unavailable",
}


class RpcError(Refusal):
    """A refusal with a code of Connect's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(STATUS[code], code, message)


def rpc_error(refusal: Refusal) -> RpcError:
    """Return any refusal as one of Connect's."""
    if isinstance(refusal, RpcError):
        return refusal
    by_status = {status: code for code, status in reversed(STATUS.items())} | _CODE
    return RpcError(by_status.get(refusal.status, "internal"), refusal.message)


def failure_of(result: ToolResult) -> RpcError | None:
    """Return why a call has no result that the API knows, or None. A command that fails is a result."""
    if result.error is None:
        return None
    return RpcError(_OF_RESULTS.get(result.error.code, "internal"), result.error.message)


def not_offered(what: str) -> Refusal:
    """Return the refusal of a part of the API that is not here."""
    return Refusal(501, "unimplemented", f"{what}; Crabpot does not offer that")


def sandbox_not_found() -> Refusal:
    """Return what an SDK takes for a sandbox that has ended; whether there ever was one is nobody else's business."""
    return Refusal(502, "unavailable", "The sandbox was not found")


def as_api(refusal: Refusal) -> Response:
    """Return a refusal as REST and files have it."""
    body = {"code": refusal.status, "message": refusal.message}
    return JSONResponse(body, status_code=refusal.status, headers=refusal.headers)


def as_connect(refusal: Refusal) -> Response:
    """Return a refusal as a unary call has it."""
    error = rpc_error(refusal)
    body = {"code": error.code, "message": error.message}
    return JSONResponse(body, status_code=refusal.status, headers=refusal.headers)
