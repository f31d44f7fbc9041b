"""Calls that wait for their client to come back with an answer: since 2026 a server asks by answering with questions.

Whoever never comes back is denied at the deadline of its request, as anybody who does not answer.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST, InputRequiredResult

from crabpot.doors.mcp.eliciting import answer, question

if TYPE_CHECKING:
    from mcp_types import CallToolRequestParams, InputRequests, InputResponses

    from crabpot.doors.mcp.running import Running
    from crabpot.doors.mcp.server import Caller

# How long a result is kept for a client that was asked and has not come back.
_KEPT_S = 60.0


class Parking:
    """Each call is found by a secret that only its client was told, and only for the same call of the same caller."""

    def __init__(self) -> None:
        self._parked: dict[str, Running] = {}

    def take(self, caller: Caller, params: CallToolRequestParams) -> Running | None:
        """Find the call that a client comes back to, and settle its questions; None where it comes to begin one."""
        if params.request_state is None:
            return None
        found = self._parked.get(params.request_state)
        asked = (caller, params.name, params.arguments)
        if found is None or (found.caller, found.params.name, found.params.arguments) != asked:
            raise MCPError(code=INVALID_REQUEST, message="the call that this answers has ended, or was another one")
        del self._parked[params.request_state]
        _settle(found, params.input_responses or {}, caller.by)
        return found

    async def outcome(self, running: Running, gone: asyncio.Event | None) -> InputRequiredResult | None:
        """Wait for the end of a call and give None, or park it and give what the client is to be asked."""
        while not running.task.done():
            await running.pause(gone)
            questions: InputRequests = {
                request_id: question(request)
                for request_id, (request, answered) in running.questions.items()
                if not answered.done()
            }
            if questions and not running.task.done():
                return InputRequiredResult(input_requests=questions, request_state=self._park(running))
        return None

    def _park(self, running: Running) -> str:
        state = secrets.token_urlsafe(32)
        self._parked[state] = running
        running.task.add_done_callback(lambda _: self._forget_later(state))
        return state

    def _forget_later(self, state: str) -> None:
        with suppress(RuntimeError):  # The loop has ended, and everything with it.
            asyncio.get_running_loop().call_later(_KEPT_S, self._parked.pop, state, None)


def _settle(running: Running, responses: InputResponses, by: str) -> None:
    """Take what the client said; a question that it left out is denied."""
    for request_id, (_, answered) in list(running.questions.items()):
        if not answered.done():
            answered.set_result(answer(responses.get(request_id), by))
