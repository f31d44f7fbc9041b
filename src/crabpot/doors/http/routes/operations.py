"""The operators' routes: explain, sandboxes, approvals, the audit log, metrics, and health for anybody."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.requests import Request  # noqa: TC002  FastAPI reads the annotations of its routes
from starlette.responses import Response

from crabpot.approvals import requests
from crabpot.approvals.display import displayed
from crabpot.approvals.requests import MOST_MINUTES, Answer
from crabpot.approvals.spelling import Spelling
from crabpot.audit.reading import AuditReader
from crabpot.doors import sandboxes
from crabpot.doors.http.access.principals import Role
from crabpot.doors.http.access.refusals import Refusal, bad_request, forbidden
from crabpot.doors.http.context import Context, Json, as_json
from crabpot.doors.http.requests import Key, object_of, operator, principal_of
from crabpot.doors.http.routes import openapi
from crabpot.doors.http.routes.events import Feed
from crabpot.doors.http.routes.metrics import CONTENT_TYPE
from crabpot.doors.listing import Listing
from crabpot.errors import SessionError
from crabpot.explain import Explainer

# An agent's text may deceive the eye: a program wants it as it is, a page that displays it does not.
Shown = Annotated[bool, Query(description="escape every text so that it is safe to display")]

_MOST_RECORDS = 1000
_LARGEST = 2**63 - 1


def _answer(allowed: bool, grant: str, **more: dict[str, Any]) -> dict[str, Any]:  # noqa: FBT001
    lasting = {"keep": {"type": "boolean"}} if grant in ("session", "minutes") else {}
    return {
        "type": "object",
        "properties": {
            "allowed": {"const": allowed},
            "grant": {"const": grant},
            "reason": {"type": ["string", "null"]},
            **lasting,
            **more,
        },
        "required": ["allowed", *([] if grant == "once" else ["grant"]), *more],
        "additionalProperties": False,
    }


_MINUTES: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": MOST_MINUTES}
_ANSWER: dict[str, Any] = {
    "anyOf": [
        _answer(False, "once"),
        _answer(True, "once"),
        _answer(True, "session"),
        _answer(True, "minutes", minutes=_MINUTES),
        _answer(True, "config"),
    ]
}
_ANSWERS = frozenset({"allowed", "grant", "minutes", "reason", "keep", "content"})


def _list_of(name: str) -> dict[str, Any]:
    listed = {"type": "array", "items": {"type": "object"}}
    return openapi.json_of({"type": "object", "properties": {name: listed}, "required": [name]})


_ANY_OBJECT = openapi.json_of({"type": "object"})


def add_routes(router: APIRouter, context: Context, operating: Operating) -> None:
    """Add the operators' routes."""
    answers = openapi.answers
    rows: list[tuple[str, str, Any, str, dict[int | str, dict[str, Any]]]] = [
        ("GET", "/health", operating.health, "Check that the gateway is up", answers(_ANY_OBJECT)),
        ("GET", "/metrics", operating.metrics, "Figures", answers({"text/plain": {"schema": openapi.TEXT}})),
        ("GET", "/v1/sessions/{key}/explain", operating.explain, "Explain a session", answers(_ANY_OBJECT)),
        ("GET", "/v1/sandboxes", operating.sandboxes, "List the sandboxes", answers(_list_of("sandboxes"))),
        (
            "POST",
            "/v1/sandboxes/{name}/stop",
            operating.stop,
            "End a sandbox; its files stay",
            answers(_ANY_OBJECT, s404="No such sandbox"),
        ),
        ("GET", "/v1/approvals", operating.approvals, "List the pending requests", answers(_list_of("requests"))),
        ("GET", "/v1/audit", operating.audit, "Page through the audit log", answers(_list_of("records"))),
    ]
    for method, path, endpoint, name, responses in rows:
        router.add_api_route(
            path,
            endpoint,
            methods=[method],
            summary=name,
            operation_id=endpoint.__name__,
            responses=responses,
            response_model=None,
            openapi_extra={"security": []} if path == "/health" else None,
        )
    # An endless stream: clients that test every described route would hang on it.
    router.add_api_route(
        "/v1/events", Feed(context).events, methods=["GET"], include_in_schema=False, response_model=None
    )
    router.add_api_route(
        "/v1/approvals/{request_id}",
        operating.answer,
        methods=["POST"],
        summary="Answer a request",
        operation_id="answer",
        responses=answers(_ANY_OBJECT, s409="It is no longer pending", s415="The body is not JSON"),
        response_model=None,
        openapi_extra={"requestBody": {"content": openapi.json_of(_ANSWER), "required": True}},
    )


class Operating:
    """The operators' routes over one gateway."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pending = Spelling(requests.Request.as_json)
        self._reader = AuditReader(context.state)
        self._listed = Listing()
        gateway = context.gateway
        self._explainer = Explainer(
            settings=gateway.settings, around=gateway.execution.around, registry=gateway.execution.registry
        )

    async def health(self) -> Response:
        """Respond to a health check, and reveal nothing else."""
        closing = self._context.closing
        return as_json({"status": "ending" if closing else "ok"}, status=503 if closing else 200)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics in Prometheus' format to an operator or observer."""
        if principal_of(request).role is Role.AGENT:
            raise forbidden("the metrics are for operators and observers")
        pending = await self._context.gateway.desk.listed()
        return Response(self._context.metrics.text(len(pending)), headers={"content-type": CONTENT_TYPE})

    async def explain(
        self,
        request: Request,
        key: Key,
        command: str | None = Query(default=None),
        sender: str | None = None,
        *,
        shown: Shown = False,
    ) -> Response:
        """Explain which tools, where and when, by the functions that the gateway decides with."""
        operator(request)
        try:
            answer = await self._explainer.explain(key, command, sender=sender)
            return as_json(displayed(answer) if shown else answer)
        except SessionError as error:
            raise Refusal(400, "invalid_arguments", str(error)) from None
        except ValueError as error:
            raise bad_request(str(error)) from None

    async def sandboxes(self, request: Request) -> Response:
        """List the live sandboxes and the private folders."""
        operator(request)
        kept = await self._context.kept.now()
        return Json(self._listed.of(kept, self._context.gateway.execution.fleet.listed()))

    async def stop(self, request: Request, name: Annotated[str, Path(pattern="^[a-z0-9._-]+$")]) -> Response:
        """Stop a sandbox and whatever runs in it."""
        operator(request)
        rows = sandboxes.rows(await self._context.kept.now(), sandboxes.live(self._context.gateway))
        one = next((row for row in rows if row["name"] == name), None)
        if one is None:
            raise Refusal(404, "not_found", f"no sandbox {name}")
        return as_json({"name": name, "stopped": await sandboxes.stop(self._context.gateway, one["scope_key"])})

    async def approvals(self, request: Request) -> Response:
        """List the pending requests with everything that the terminal shows."""
        operator(request)
        return Json(self._pending.of(await self._context.gateway.desk.listed()))

    async def answer(self, request: Request, request_id: Annotated[str, Path(pattern="^[0-9a-f]+$")]) -> Response:
        """Allow or deny a request; only the first answer counts."""
        principal = operator(request)
        given = await object_of(request)
        unknown = set(given) - _ANSWERS
        if unknown:
            raise bad_request(f"unknown field {', '.join(sorted(unknown))}")
        try:
            answer = Answer.from_json({**given, "by": f"http {principal.name}"})
        except ValueError as error:
            raise bad_request(str(error)) from None
        desk = self._context.gateway.desk
        if answer.allowed:
            waiting = {one.id: one for one in await desk.listed()}
            if request_id in waiting and (problem := waiting[request_id].problem_with(answer)):
                raise bad_request(problem)
        if not await asyncio.to_thread(desk.answer, request_id, answer):
            raise Refusal(409, "not_pending", f"the request {request_id} is not pending")
        return as_json({"answered": request_id, "allowed": answer.allowed})

    async def audit(  # noqa: PLR0913  the query, name by name
        self,
        request: Request,
        before: Annotated[int | None, Query(ge=1, le=_LARGEST, description="only records before this number")] = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_RECORDS)] = 100,
        session: Annotated[str | None, Query(description="only records of this session")] = None,
        text: Annotated[str | None, Query(description="only records that contain this, ignoring case")] = None,
        *,
        shown: Shown = False,
    ) -> Response:
        """Return the last records, oldest first; `before` of one page is where the next one ends."""
        operator(request)

        def wanted(record: dict[str, Any]) -> bool:
            mine = session is None or record.get("session") == session
            return mine and (text is None or text.lower() in json.dumps(record, ensure_ascii=False).lower())

        chosen = None if session is None and text is None else wanted
        if before is None and chosen is None and not shown:
            return await self.newest(request, limit)
        await self._context.gateway.audit.caught_up()
        found = await asyncio.to_thread(self._reader.last, limit, before=before, wanted=chosen)
        before = found[0]["number"] if len(found) == limit else None
        return as_json({"records": displayed(found) if shown else found, "before": before})

    async def newest(self, request: Request, limit: int = 100) -> Response:
        """Return the last records, from memory while nobody but this gateway writes the log."""
        operator(request)
        audit = self._context.gateway.audit
        await audit.caught_up()
        recent = audit.recent
        kept = recent.last(limit)
        if kept is not None:
            texts, before = (one.text for one in kept), kept[0].number
            text = f'{{"records": [{", ".join(texts)}], "before": {before}}}'
            return Json(text)

        def read() -> list[dict[str, Any]]:
            # For those who ask next.
            recent.look()
            return self._reader.last(limit)

        found = await asyncio.to_thread(read)
        return as_json({"records": found, "before": found[0]["number"] if len(found) == limit else None})
