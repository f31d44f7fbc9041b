"""The pipeline that every call goes through, whatever the door: which, where, when, run, record."""

from __future__ import annotations

import inspect
import time
import uuid
from typing import TYPE_CHECKING, Any

from crabpot.audit.records import of_call, of_intent
from crabpot.elevation import rules as elevation
from crabpot.elevation.rules import Exit
from crabpot.errors import CrabpotError, SandboxLost, SandboxUnavailable
from crabpot.model import Failure, Place, ToolCall, ToolResult
from crabpot.placement import rules as placement
from crabpot.placement import sessions
from crabpot.policy import rules as policy
from crabpot.policy.catalogue import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from crabpot.audit.store import AuditLog
    from crabpot.execution import Execution, Streams
    from crabpot.model import Verdict
    from crabpot.placement.rules import Placement
    from crabpot.settings import AgentSettings, Settings

    HostTool = Callable[..., Any | Awaitable[Any]]


class Gateway:
    """One configuration, its live sandboxes, and its audit log."""

    def __init__(self, *, settings: Settings, execution: Execution, audit: AuditLog) -> None:
        self.settings = settings
        self.execution = execution
        self.audit = audit
        self._host_tools: dict[str, HostTool] = {}

    def register(self, name: str, tool: HostTool) -> None:
        """Offer a host tool: a callable that takes the arguments by name. Its name passes the same policy."""
        self._host_tools[policy.canonical(name)] = tool

    async def call(
        self,
        session: str,
        tool: str,
        args: Mapping[str, Any] | None = None,
        /,
        *,
        sender: str | None = None,
        streams: Streams | None = None,
        **more: Any,
    ) -> ToolResult:
        """Take one call through the five steps. What the agent did wrong is a result, never an exception."""
        name = policy.canonical(tool)
        call = ToolCall(id=uuid.uuid4().hex, session=session, tool=name, args={**(args or {}), **more}, sender=sender)
        key = sessions.parse(session, default_agent=self.settings.default_agent)
        agent = self.settings.agent(key.agent)
        placed = placement.decide(key, agent)
        sandboxed = placed.answer.where is Place.SANDBOX
        began = time.perf_counter()

        allowed = policy.decide(name, agent, sandboxed=sandboxed)
        if not allowed.answer:
            result = _refused(call, "denied", f"{name} is denied: {allowed.because} ({allowed.source})")
            return self._recorded(call, agent, result, allowed, began)

        leaving = elevation.decide(call.args, agent, sender=sender) if sandboxed and name == "exec" else None
        if leaving is not None and leaving.answer.exit is not Exit.STAYS_IN:
            result = _refused(call, "approval_denied", _nobody_to_ask(leaving))
            return self._recorded(call, agent, result, leaving, began)

        if not sandboxed or name not in BUILT_IN:
            self.audit.record(**of_intent(call, agent.id, placed))
        result = await self._run(call, agent, placed.answer, streams)
        return self._recorded(call, agent, result, placed, began)

    async def _run(
        self, call: ToolCall, agent: AgentSettings, placed: Placement, streams: Streams | None
    ) -> ToolResult:
        try:
            if call.tool in BUILT_IN:
                return await self.execution.run(call, agent, placed, streams)
            return await self._run_host_tool(call)
        except SandboxUnavailable as error:
            return _refused(call, "sandbox_unavailable", str(error))
        except SandboxLost as error:
            return _refused(call, "sandbox_lost", f"the sandbox was lost: {error}")

    async def _run_host_tool(self, call: ToolCall) -> ToolResult:
        tool = self._host_tools.get(call.tool)
        if tool is None:
            return _refused(call, "not_found", f"no program has registered the host tool {call.tool}")
        try:
            inspect.signature(tool).bind(**call.args)
        except TypeError as error:
            return _refused(call, "invalid_arguments", f"{call.tool}: {error}")
        try:
            answer = tool(**call.args)
            data = await answer if inspect.isawaitable(answer) else answer
        except CrabpotError as error:
            return _refused(call, "internal", f"{call.tool}: {error}")
        except Exception as error:  # noqa: BLE001  somebody else's tool: its fault must not end the gateway
            return _refused(call, "internal", f"{call.tool}: {type(error).__name__}: {error}")
        shaped = data if isinstance(data, dict) or data is None else {"value": data}
        return ToolResult(id=call.id, success=True, data=shaped, place=Place.HOST)

    def _recorded(
        self, call: ToolCall, agent: AgentSettings, result: ToolResult, verdict: Verdict[Any], began: float
    ) -> ToolResult:
        timed = result.after(round((time.perf_counter() - began) * 1000, 3))
        self.audit.record(**of_call(call, agent.id, timed, verdict))
        return timed

    async def close(self) -> None:
        """End every sandbox and write the log out."""
        await self.execution.close()
        self.audit.close()


def _refused(call: ToolCall, code: str, message: str) -> ToolResult:
    return ToolResult(id=call.id, success=False, error=Failure(code=code, message=message))


def _nobody_to_ask(leaving: Verdict[elevation.Elevation]) -> str:
    words = " ".join(leaving.answer.argv or ())
    return f'"{words}" {leaving.because} ({leaving.source}), so it would run on the host, and nobody is there to ask'
