"""Parse and check a request: its principal, session, sender and arguments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

from fastapi import Header, Path
from pydantic import AfterValidator

from crabpot.doors.http.access.refusals import Refusal, forbidden
from crabpot.errors import SessionError

if TYPE_CHECKING:
    from starlette.requests import Request

    from crabpot.doors.http.access.principals import Principal

_LONGEST = 4096
# As it is sent, percent-encoded.
LONGEST_KEY = 12 * _LONGEST


def decoded(encoded: str) -> str:
    """Return a segment of a path as bytes that need not be UTF-8."""
    return unquote(encoded, errors="surrogateescape")


# The guard passes session paths on as they were sent, percent-encoded, whatever is in them: twelve characters at most
# for one of the key's, which is measured where it is parsed.
Key = Annotated[
    str,
    Path(
        min_length=1,
        max_length=LONGEST_KEY,
        json_schema_extra={"maxLength": _LONGEST},
        description="the session key, percent-encoded as one segment",
    ),
    AfterValidator(decoded),
]
FilePath = Annotated[
    str,
    Path(min_length=1, description="relative to /workspace; absolute after a second slash"),
    AfterValidator(decoded),
]
Sender = Annotated[
    str | None, Header(alias="Crabpot-Sender", max_length=_LONGEST, description="on whose behalf; operators only")
]


def principal_of(request: Request) -> Principal:
    """Return the principal that the guard let in."""
    found: Principal = request.scope["state"]["principal"]
    return found


def headers_of(request: Request) -> dict[str, str]:
    """Return the headers as the guard read them."""
    found: dict[str, str] = request.scope["state"]["headers"]
    return found


def operator(request: Request) -> Principal:
    """Return the principal if it is an operator, or refuse."""
    principal = principal_of(request)
    if not principal.operates:
        raise forbidden(f"this is for operators; the token {principal.name} is an {principal.role.value}'s")
    return principal


def user_of(request: Request, session: str) -> Principal:
    """Return the principal if it may call tools in the session, or refuse."""
    principal = principal_of(request)
    try:
        may = principal.may_use(session)
    except SessionError as error:
        raise Refusal(400, "invalid_arguments", str(error)) from None
    if not may:
        raise forbidden(f"the token {principal.name} is not for this session")
    return principal


def sender_of(principal: Principal, stated: str | None) -> str | None:
    """Return the sender of the call: the token's own, or what an operator states."""
    if stated is None:
        return principal.sender
    if not principal.operates:
        raise forbidden("only an operator may state the sender; an agent's is part of its token")
    return stated


async def object_of(request: Request) -> dict[str, Any]:
    """Parse a JSON body; no body is an empty object."""
    kind = headers_of(request).get("content-type", "application/json").partition(";")[0].strip().lower()
    body = await request.body()
    if not body:
        return {}
    if kind != "application/json":
        raise Refusal(415, "not_json", "the body must be application/json")
    try:
        value = json.loads(body, parse_constant=_no_number, parse_float=_number)
    except (ValueError, RecursionError):
        raise Refusal(400, "invalid_arguments", "the body is not JSON") from None
    if not isinstance(value, dict):
        raise Refusal(400, "invalid_arguments", "the body must be an object")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float | int:
    """Parse a number, with 5.0 as the whole number that JSON means."""
    value = float(text)
    return int(value) if value.is_integer() else value
