"""What a server asks while it is called: a person at the operator's desk, and the caller's model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ErrorData,
)
from pydantic import ValidationError

from crabpot.approvals.requests import NOBODY, Request, denied, new_id
from crabpot.approvals.store import StoreUnavailable
from crabpot.audit.records import of_answer, of_request, of_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.egress.approval import Asker
    from crabpot.servers.starting import Running

# For one call: a server that asks without end must tire neither a person nor a purse.
_MOST = 16
_LONGEST_QUESTION = 4000
# What another conversation holds, or the provider's own switches, are not the server's to ask for.
_NOT_PASSED = ("include_context", "metadata", "tools", "tool_choice", "task", "meta")


@dataclass(slots=True, kw_only=True)
class Questions:
    """Answers the questions of one running server: by a person, by the caller's model, or by a refusal."""

    desk: Asker
    record: Callable[[dict[str, Any]], object]
    sampling: bool
    source: str
    running: Running | None = None

    async def elicit(self, context: Any, params: Any) -> ElicitResult | ErrorData:  # noqa: ARG002  the name is the SDK's
        """Ask the operators. Nobody else answers, and nothing is answered unasked."""
        running = self._caller("elicitation/create")
        if isinstance(running, ErrorData):
            return running
        if not isinstance(params, ElicitRequestFormParams):
            return self._refused("elicitation/create", "only forms are passed on, and no address to visit")
        if len(params.message) > _LONGEST_QUESTION:
            return self._refused("elicitation/create", f"a question has at most {_LONGEST_QUESTION} characters")
        request = self._request(running, params)
        self.record(of_request(request.as_json()))
        with running.connection.waiting_for_a_person():
            try:
                answer = await self.desk.decide(request)
            except StoreUnavailable as error:
                answer = denied(NOBODY, str(error))
        # Not every approver looked whether its answer fits the form.
        wrong = request.problem_with(answer)
        answer = answer if wrong is None else denied(answer.by, wrong)
        self.record(of_answer(request.as_json(), answer.as_json()))
        if not answer.allowed:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=dict(answer.content or {}))

    def _request(self, running: Running, params: ElicitRequestFormParams) -> Request:
        now, scope = time.time(), running.scope
        return Request(
            id=new_id(),
            kind="question",
            session=scope.session,
            agent=scope.agent.id,
            scope_key=scope.key,
            server=running.name,
            question=params.message,
            form=dict(params.requested_schema),
            pattern="elicitation/create",
            source=self.source,
            lasting=False,
            asked_at=now,
            deadline=now + scope.agent.tools.elevated.approval_timeout,
        )

    async def sample(
        self,
        context: Any,  # noqa: ARG002  the name is the SDK's
        params: CreateMessageRequestParams,
    ) -> CreateMessageResult | ErrorData:
        """Ask the model of whoever calls the server now."""
        running = self._caller("sampling/createMessage")
        if isinstance(running, ErrorData):
            return running
        if not self.sampling:
            return self._refused("sampling/createMessage", f"{self.source}.sampling is false")
        if len(running.callers) != 1:
            return self._refused("sampling/createMessage", "several calls are running, and nobody knows for which")
        sampler = running.callers[0].sampler
        if sampler is None:
            return self._refused("sampling/createMessage", "the caller offers no model")
        asked = params.model_dump(by_alias=True, exclude_none=True, mode="json", exclude=set(_NOT_PASSED))
        try:
            answer = CreateMessageResult.model_validate(await sampler(asked), by_name=False)
        except (ValidationError, LookupError) as error:
            return self._refused("sampling/createMessage", f"the caller's model did not answer: {type(error).__name__}")
        self.record(of_server(running.name, "sampled", session=running.scope.session, model=answer.model))
        return answer

    def _caller(self, what: str) -> Running | ErrorData:
        running = self.running
        if running is None or not running.scope.calls:
            return self._refused(what, "nobody calls the server now")
        running.asked += 1
        if running.asked > _MOST:
            return self._refused(what, f"it asked more than {_MOST} times during one call")
        return running

    def _refused(self, what: str, because: str) -> ErrorData:
        """Refuse a question by its name: to the server, and in the log."""
        name = "" if self.running is None else self.running.name
        self.record(of_server(name, "refused", what=what, because=because))
        return ErrorData(code=INVALID_REQUEST, message=f"{what} is refused: {because}")
