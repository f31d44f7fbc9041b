"""The operators' routes for sessions under review: their changes listed, compared, applied, undone and discarded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request  # noqa: TC002  FastAPI reads the annotations of its routes
from starlette.responses import Response  # noqa: TC002

from crabpot.approvals.display import displayed, line
from crabpot.audit.reading import AuditReader
from crabpot.doors.http.access.refusals import Refusal, bad_request
from crabpot.doors.http.context import as_json
from crabpot.doors.http.requests import Key, object_of, operator
from crabpot.doors.http.routes import openapi
from crabpot.doors.review import nothing, visible_diff
from crabpot.errors import CrabpotError, LayerBusy, LayerError, SessionError
from crabpot.host_commands.review.replaying import story

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.doors.http.context import Context
    from crabpot.host_commands.review.review import Review
    from crabpot.layers.layer import Layer

    Deed = Callable[[Review, Layer], Awaitable[dict[str, Any]]]

Paths = Annotated[list[str], Query(description="only these paths, and what lies beneath them")]
Shown = Annotated[bool, Query(description="escape every text so that it is safe to display")]

_PATHS = {"type": "array", "items": {"type": "string"}}
_REFUSED = {"s404": "Nothing is under review there", "s409": "It is in use", "s415": "The body is not JSON"}
_ANY_OBJECT = openapi.json_of({"type": "object"})


def _body(**properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"requestBody": {"content": openapi.json_of(schema), "required": False}}


def add_routes(router: APIRouter, context: Context) -> None:
    """Add the routes."""
    reviewing = _Reviewing(context)
    changes = "/v1/sessions/{key}/changes"
    gated = {"type": "boolean", "description": "also what the host would execute"}
    rows: list[tuple[str, str, Any, str, dict[str, Any] | None]] = [
        ("GET", "/v1/layers", reviewing.layers, "List the sessions that have changes under review", None),
        ("GET", changes, reviewing.changes, "List the changes of a session", None),
        ("GET", "/v1/sessions/{key}/replay", reviewing.replay, "Tell a session as a story", None),
        ("GET", f"{changes}/diff", reviewing.diff, "Compare the changes with the host's folder", None),
        ("POST", f"{changes}/apply", reviewing.apply, "Apply changes", _body(paths=_PATHS, gated=gated)),
        ("POST", f"{changes}/undo", reviewing.undo, "Undo the last apply", _body(paths=_PATHS)),
        ("POST", f"{changes}/discard", reviewing.discard, "Forget changes", _body(paths=_PATHS)),
    ]
    for method, path, endpoint, name, body in rows:
        router.add_api_route(
            path,
            endpoint,
            methods=[method],
            summary=name,
            operation_id=f"{endpoint.__name__}_review",
            responses=openapi.answers(
                _ANY_OBJECT, s404="Nothing is under review there", s409="It is in use", s415="The body is not JSON"
            ),
            response_model=None,
            openapi_extra=body,
        )


class _Reviewing:
    """The routes over one gateway."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def layers(self, request: Request) -> Response:
        """List the layers of the state folder."""
        review = self._review(request)
        found = await asyncio.to_thread(review.store.all)
        rows = [{"session": one.session, "folder": one.folder, "mechanism": one.mechanism} for one in found]
        return as_json({"layers": rows})

    async def changes(self, request: Request, key: Key, path: Paths = [], *, shown: Shown = False) -> Response:  # noqa: B006
        """List the changes; with `shown`, each has its path for display beside the one to send back."""
        review = self._review(request)
        layer = _layer(review, key)
        if layer is None:
            return as_json(await nothing(self._context.gateway, key))
        told = await _tried(review.listed(layer, path))
        if shown:
            told["files"] = [one | {"shown": line(one["path"])} for one in told["files"]]
        return as_json(told)

    async def diff(self, request: Request, key: Key, path: Paths = [], *, shown: Shown = False) -> Response:  # noqa: B006
        """Return a unified diff, from the host's files to the agent's, and the three sides of each conflict."""
        review = self._review(request)
        layer = _layer(review, key)
        text = "" if layer is None else (await _tried(review.diff(layer, path))).decode("utf-8", "surrogateescape")
        sides = [] if layer is None else await _tried(review.sides(layer, path))
        if shown:
            text = visible_diff(text)
            sides = [
                {
                    **one,
                    "path": line(one["path"]),
                    **{side: visible_diff(one[side] or "") for side in ("host", "agent")},
                }
                for one in sides
            ]
        return as_json({"session": key, "diff": text, "sides": sides})

    async def replay(self, request: Request, key: Key, *, shown: Shown = False) -> Response:
        """Return a session as a story: its records, and what each call was the last to change."""
        review = self._review(request)
        try:
            chapters = await story(review, key, AuditReader(review.state).all())
        except CrabpotError as error:
            raise Refusal(404, "not_found", str(error)) from None
        if shown:
            chapters = [displayed(one | {"diff": ""}) | {"diff": visible_diff(one["diff"])} for one in chapters]
        return as_json({"session": key, "chapters": chapters})

    async def apply(self, request: Request, key: Key) -> Response:
        """Apply changes; gated ones only if the body says so."""
        review, body = self._review(request), await _asked(request, "paths", "gated")
        gated = body.get("gated", False)
        if not isinstance(gated, bool):
            raise bad_request("gated must be true or false")
        paths = _paths(body)
        return await _done(review, key, lambda by, layer: by.apply(layer, paths, gated=gated))

    async def undo(self, request: Request, key: Key) -> Response:
        """Undo the last apply, or some paths of it."""
        review, body = self._review(request), await _asked(request, "paths")
        paths = _paths(body)
        return await _done(review, key, lambda by, layer: by.undo(layer, paths))

    async def discard(self, request: Request, key: Key) -> Response:
        """Forget changes, at some paths or all of them."""
        review, body = self._review(request), await _asked(request, "paths")
        paths = _paths(body)
        return await _done(review, key, lambda by, layer: by.discard(layer, paths))

    def _review(self, request: Request) -> Review:
        return self._context.gateway.review(f"http {operator(request).name}")


async def _asked(request: Request, *known: str) -> dict[str, Any]:
    body = await object_of(request)
    unknown = set(body) - set(known)
    if unknown:
        raise bad_request(f"unknown field {', '.join(sorted(unknown))}")
    return body


def _paths(body: dict[str, Any]) -> list[str]:
    paths = body.get("paths", [])
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise bad_request("paths must be a list of texts")
    return paths


def _layer(review: Review, key: str) -> Layer | None:
    try:
        return review.layer(key)
    except SessionError as error:
        raise Refusal(400, "invalid_arguments", str(error)) from None
    except LayerError as error:
        raise Refusal(404, "not_found", str(error)) from None


async def _done(review: Review, key: str, deed: Deed) -> Response:
    layer = _layer(review, key)
    if layer is None:
        raise Refusal(404, "not_found", f"the session {key} changed nothing yet")
    return as_json(await _tried(deed(review, layer)))


async def _tried(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except LayerBusy as error:
        raise Refusal(409, "conflict", str(error)) from None
    except LayerError as error:
        raise Refusal(400, "invalid_arguments", str(error)) from None
