"""The operators' routes for snapshots and forks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path
from starlette.requests import Request  # noqa: TC002  FastAPI reads the annotations of its routes
from starlette.responses import Response  # noqa: TC002

from crabpot.decide.sessions import LONGEST
from crabpot.doors import snapshots
from crabpot.doors.http.access.refusals import Refusal, bad_request
from crabpot.doors.http.context import as_json
from crabpot.doors.http.requests import Key, object_of, operator
from crabpot.doors.http.routes import openapi
from crabpot.errors import LayerBusy, LayerError, SessionError

if TYPE_CHECKING:
    from fastapi import APIRouter

    from crabpot.doors.http.context import Context

Name = Annotated[str, Path(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="the snapshot's name")]

_OF = "/v1/sessions/{key}/snapshots"
_NAMED: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
_KEY: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST}
_FORK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "to": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": LONGEST}, "minItems": 1}
    },
    "required": ["to"],
    "additionalProperties": False,
}


def add_routes(router: APIRouter, context: Context) -> None:
    """Add the routes."""
    snapshots = _Snapshots(context)
    rows: tuple[tuple[str, str, Any, str, dict[str, Any] | None], ...] = (
        ("GET", _OF, snapshots.list_snapshots, "List the snapshots of a session", None),
        ("POST", _OF, snapshots.save_snapshot, "Keep what a session has written", _NAMED),
        ("POST", _OF + "/{name}/restore", snapshots.restore_snapshot, "Put a snapshot back", None),
        ("DELETE", _OF + "/{name}", snapshots.remove_snapshot, "Forget a snapshot", None),
        ("POST", "/v1/sessions/{key}/fork", snapshots.fork, "Copy what a session has written to new ones", _FORK),
    )
    for method, path, endpoint, name, body in rows:
        described = None if body is None else {"requestBody": {"content": openapi.json_of(body), "required": True}}
        more = {} if body is None else {"s415": "The body is not JSON"}
        router.add_api_route(
            path,
            endpoint,
            methods=[method],
            summary=name,
            operation_id=endpoint.__name__,
            responses=openapi.answers(
                openapi.json_of({"type": "object"}), s409="It cannot be done as things are", **more
            ),
            response_model=None,
            openapi_extra=described,
        )


class _Snapshots:
    """The routes over one gateway."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def list_snapshots(self, request: Request, key: Key) -> Response:
        """List the snapshots of a session."""
        return await self._answer(request, {"action": "list", "session": key})

    async def save_snapshot(self, request: Request, key: Key) -> Response:
        """Keep what a session has written under a name."""
        operator(request)
        given = await _only(request, "name")
        return await self._answer(request, {"action": "save", "session": key, **given})

    async def restore_snapshot(self, request: Request, key: Key, name: Name) -> Response:
        """Put a snapshot in the place of what was written since."""
        return await self._answer(request, {"action": "restore", "session": key, "name": name})

    async def remove_snapshot(self, request: Request, key: Key, name: Name) -> Response:
        """Forget a snapshot."""
        return await self._answer(request, {"action": "remove", "session": key, "name": name})

    async def fork(self, request: Request, key: Key) -> Response:
        """Copy what one session has written to new ones."""
        operator(request)
        given = await _only(request, "to")
        return await self._answer(request, {"action": "fork", "session": key, **given})

    async def _answer(self, request: Request, asked: dict[str, Any]) -> Response:
        by = f"http {operator(request).name}"
        try:
            return as_json(await snapshots.answer(self._context.gateway, asked, by=by))
        except SessionError as error:
            raise Refusal(400, "invalid_arguments", str(error)) from None
        except LayerBusy as error:
            raise Refusal(409, "busy", str(error)) from None
        except LayerError as error:
            raise Refusal(409, "conflict", str(error)) from None


async def _only(request: Request, name: str) -> dict[str, Any]:
    given = await object_of(request)
    if set(given) != {name}:
        raise bad_request(f"the body is an object with {name}, and nothing else")
    return given
