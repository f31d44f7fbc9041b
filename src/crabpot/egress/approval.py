"""Ask an operator about an unlisted destination, and write it into the configuration if the answer says so."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from crabpot.approvals.requests import NOBODY, Answer, Request, denied, new_id
from crabpot.approvals.store import StoreUnavailable
from crabpot.audit.records import of_answer, of_request
from crabpot.config import edit
from crabpot.config.load import read_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.decide.scope import Scope
    from crabpot.egress.destinations import Destination


class Asker(Protocol):
    """Something that obtains a person's answer."""

    async def decide(self, request: Request) -> Answer:
        """Return the answer to one request."""


class Questions:
    """The questions of one scope. However many connections a program opens to one place, a person is asked once."""

    def __init__(self, scope: Scope, desk: Asker, record: Callable[[dict[str, Any]], object]) -> None:
        self._scope = scope
        self._desk = desk
        self._record = record
        self._asking: dict[Destination, asyncio.Task[Answer]] = {}
        self._waiting: Counter[Destination] = Counter()

    async def ask(self, destination: Destination, source: str) -> Answer:
        """Return the answer, shared by all connections to a destination that wait for it now."""
        task = self._asking.get(destination)
        if task is None:
            task = self._asking[destination] = asyncio.create_task(self._decide(destination, source))
            task.add_done_callback(lambda _: self._asking.pop(destination, None))
        self._waiting[destination] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting[destination] -= 1
            if not self._waiting[destination]:
                del self._waiting[destination]
                # Nobody may agree any more to what nobody waits for.
                task.cancel()

    async def _decide(self, destination: Destination, source: str) -> Answer:
        request = _request(destination, self._scope, source)
        self._record(of_request(request.as_json()))
        try:
            with self._scope.waiting():
                answer = await self._desk.decide(request)
        except StoreUnavailable as error:
            answer = denied(NOBODY, str(error))
        self._record(of_answer(request.as_json(), answer.as_json()))
        return answer


def _request(destination: Destination, scope: Scope, source: str) -> Request:
    now = time.time()
    return Request(
        id=new_id(),
        kind="connection",
        session=scope.session,
        agent=scope.agent.id,
        scope_key=scope.key,
        host=destination.host,
        port=destination.port,
        pattern="network.ask",
        source=source,
        asked_at=now,
        deadline=scope.deadline(now, scope.agent.tools.elevated.approval_timeout),
    )


def write_down(file: str | None, agent: str, destination: Destination) -> None:
    """Add a destination to the allow list of one agent's own entry; without a file nothing is written.

    Never to the defaults that its network may come from: the person was asked about this agent, not about others.
    """
    if file is None:
        return
    text = read_text(file)
    listed = f"{edit.entry_of(text, agent)}.sandbox.network.allow[+]"
    edit.write_atomically(file, edit.set_value(text, listed, json.dumps(str(destination))))
