"""Refusals of the HTTP door in one format: a status, a code, and a sentence that says what to do."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse


class Refusal(Exception):
    """A refused request, and why."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self) -> JSONResponse:
        """Return the response."""
        return JSONResponse(
            {"error": {"code": self.code, "message": self.message}}, status_code=self.status, headers=self.headers
        )


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}


def bad_request(message: str) -> Refusal:
    """Return a refusal of a malformed request."""
    return Refusal(400, "bad_request", message)


def forbidden(message: str) -> Refusal:
    """Return a refusal of what this principal may not do."""
    return Refusal(403, "forbidden", message)
