"""Calls that wait for their client to return with an answer: since 2026 a server asks by responding with questions.

A client that never returns is denied at its request's deadline, like anybody who does not answer.
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

    from crabpot.doors.inflight import Sign
    from crabpot.doors.mcp.running import Running
    from crabpot.doors.mcp.server import Caller

# How long a result is kept for a client that was asked and has not returned.
_KEPT_S = 60.0


class Parking:
    """Finds each call by a secret that only its client has, and only for the same call of the same caller."""

    def __init__(self) -> None:
        self._parked: dict[str, Running] = {}

    def take(self, caller: Caller, params: CallToolRequestParams) -> Running | None:
        """Return the call that a client returns to, with its questions settled; None if the client begins one."""
        if params.request_state is None:
            return None
        found = self._parked.get(params.request_state)
        asked = (caller, params.name, params.arguments)
        if found is None or (found.caller, found.params.name, found.params.arguments) != asked:
            raise MCPError(code=INVALID_REQUEST, message="the call that this answers has ended, or was a different one")
        del self._parked[params.request_state]
        _settle(found, params.input_responses or {}, caller.by)
        return found

    async def outcome(self, running: Running, gone: Sign | None) -> InputRequiredResult | None:
        """Wait for a call and return None when it ends, or park it and return the questions for the client."""
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
        with suppress(RuntimeError):  # The loop has ended.
            asyncio.get_running_loop().call_later(_KEPT_S, self._parked.pop, state, None)


def _settle(running: Running, responses: InputResponses, by: str) -> None:
    """Apply the client's answers; a question that it left out is denied."""
    for request_id, (_, answered) in list(running.questions.items()):
        if not answered.done():
            answered.set_result(answer(responses.get(request_id), by))
