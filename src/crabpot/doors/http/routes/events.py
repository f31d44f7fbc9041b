"""Live events for operators' pages: calls, requests for approval, sandboxes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from starlette.requests import Request  # noqa: TC002  FastAPI reads the annotations of its routes
from starlette.responses import Response  # noqa: TC002  as above

from crabpot.approvals import requests as approvals
from crabpot.approvals.display import displayed
from crabpot.approvals.spelling import Spelling
from crabpot.audit.reading import AuditReader
from crabpot.decide.scope import behind_it
from crabpot.doors import sandboxes
from crabpot.doors.http.requests import operator
from crabpot.doors.http.routes.streaming import Events, Pieces, watched
from crabpot.errors import CrabpotError
from crabpot.sandboxes.running import listed

if TYPE_CHECKING:
    from crabpot.doors.http.context import Context

# Often enough for a person. The log is written in batches, and its last records are found without a search.
_RECORDS_S, _SANDBOXES_S, _LOOK_S = 0.4, 2.0, 0.2
_FIRST, _MOST = 100, 500


class Feed:
    """Answers `GET /v1/events` with the current state and then every change, until the client or the door closes.

    Any text in it may be an agent's choice, and is escaped as on the terminal.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    async def events(self, request: Request) -> Response:
        """Stream the events `records`, `approvals`, `sandboxes` and `running` to an operator."""
        operator(request)

        async def write(pieces: Pieces) -> None:
            events = Events(pieces)
            # The gateway's own work: a page that is only open must keep nobody from the loop, as a request does.
            with behind_it(None):
                await self._stream(request, events)

        return Pieces("text/event-stream", write)

    async def _stream(self, request: Request, events: Events) -> None:
        gone = watched(request)
        async with events.kept_alive():
            works = (self._records, self._approvals, self._sandboxes, self._running)
            tasks = [asyncio.create_task(work(events)) for work in works]
            try:
                # A closing door ends its streams: pages reconnect to the next one.
                while not (gone.is_set() or self._context.closing or any(task.done() for task in tasks)):
                    await asyncio.wait({*tasks}, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _records(self, events: Events) -> None:
        reader, seen, count = AuditReader(self._context.state), 0, _FIRST
        while True:
            fresh = await asyncio.to_thread(_last, reader, count, seen)
            if fresh:
                seen, count = fresh[-1]["number"], _MOST
                await events.send_json("records", await asyncio.to_thread(_spelled, "records", fresh))
            await asyncio.sleep(_RECORDS_S)

    async def _approvals(self, events: Events) -> None:
        spelling = Spelling(approvals.Request.as_shown)
        async for pending in self._context.gateway.desk.watch():
            await events.send_json("approvals", spelling.of(pending))

    async def _running(self, events: Events) -> None:
        before: object = None
        while True:
            now = listed(self._context.gateway.running)
            if now != before:
                before = now
                await events.send_json("running", await asyncio.to_thread(_spelled, "calls", now))
            await asyncio.sleep(_RECORDS_S)

    async def _sandboxes(self, events: Events) -> None:
        while True:
            found = sandboxes.live(self._context.gateway)
            await events.send_json("sandboxes", await asyncio.to_thread(self._rows, found))
            await asyncio.sleep(_SANDBOXES_S)

    def _rows(self, live: list[dict[str, Any]]) -> str:
        kept = self._context.kept.rows()
        shown = sandboxes.rows(kept, sandboxes.used(live), most=sandboxes.MOST_KEPT)
        return _spelled("sandboxes", shown, left_off=len(kept.keys() - {row["scope_key"] for row in shown}))


def _spelled(name: str, rows: list[dict[str, Any]], **more: int) -> str:
    """Return rows as JSON for a page. Run it in a thread: they may be hundreds, and the loop is everybody's."""
    return json.dumps({name: displayed(rows), **more})


def _last(reader: AuditReader, count: int, after: int) -> list[dict[str, Any]]:
    try:
        return reader.last(count, after=after)
    except CrabpotError:
        return []  # A log that cannot be read is reported by the route that reads it.
