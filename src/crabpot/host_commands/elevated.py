"""Run an elevated command: plan it, get approval, record it, and freeze the sandboxes of its folder while it runs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from crabpot.approvals.display import line, shown
from crabpot.approvals.requests import GONE, NOBODY, Answer, FolderIdentity, Request, denied, new_id
from crabpot.approvals.store import StoreUnavailable
from crabpot.audit.records import of_answer, of_elevated_command, of_request
from crabpot.audit.store import AuditUnavailable
from crabpot.decide.elevation import Decision
from crabpot.decide.known_programs import executes_nothing, needs
from crabpot.errors import HostRefused, SandboxError, SandboxUnavailable
from crabpot.host_commands.unread_input import told_of_input
from crabpot.model import Place
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.arguments import InvalidCall, time_limit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.approvals.desk import Desk
    from crabpot.audit.store import AuditLog
    from crabpot.decide.elevation import Elevation, ElevationRule
    from crabpot.decide.placement import Placement
    from crabpot.decide.scope import Scope
    from crabpot.host_commands.host import Host
    from crabpot.host_commands.plan import Plan
    from crabpot.model import ToolCall, ToolResult, Verdict
    from crabpot.sandboxes.execution import Execution
    from crabpot.sandboxes.streams import Streams
    from crabpot.settings import AgentSettings
    from crabpot.wire.calls import RunnerWire
    from crabpot.wire.replies import Reply

    # Takes a plan and its time limit in seconds.
    Launch = Callable[[Plan, float], Awaitable[Reply]]

# Examining a repository uses the host's processes and time, which the sandbox's limits do not cover.
_PLANS_AT_ONCE = 4
# `detach` is about what may outlive a command inside. On the host nothing does.
_TAKES = frozenset({"command", "cwd", "timeout", "detach"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ElevatedCommands:
    """Runs the elevated commands of one gateway. Whatever is refused here is blocked: it does not run elsewhere."""

    desk: Desk
    audit: AuditLog
    execution: Execution
    # Created for the first elevated command: most gateways see none.
    host: Callable[[], Host]
    _planning: WeakValueDictionary[str, asyncio.Semaphore] = field(default_factory=WeakValueDictionary)

    def attend(self, streams: Streams, placed: Placement) -> Callable[[], None] | None:
        """Attach the caller's approver, if any, to its sandbox's requests; return the function that removes it."""
        if streams.approver is None or placed.scope_key is None:
            return None
        return self.desk.attach(streams.approver, scope_key=placed.scope_key)

    async def run(  # noqa: PLR0913  a call, its decisions, and how it is to run
        self,
        call: ToolCall,
        agent: AgentSettings,
        placed: Placement,
        verdict: Verdict[Elevation],
        streams: Streams | None,
        *,
        launch: Launch | None = None,
        asked_by: Scope | None = None,
    ) -> ToolResult:
        """Run one command on the host, if approved.

        For commands of shims `launch` replaces the usual start, and `asked_by` is whose calls wait inside meanwhile.
        """
        with ExitStack() as holds:
            try:
                timeout_s = _checked(call, agent)
                if (refused := await self._refused(agent, placed, verdict)) is not None:
                    return call.failed(refused.code, _refusal(shown(verdict.answer.argv or ()), verdict, refused))
                plan = await self._plan(call, agent, placed, verdict, timeout_s, holds)
            except InvalidCall as error:
                return call.failed("invalid_arguments", str(error))
            except HostRefused as refusal:
                return call.failed(refusal.code, str(refusal))
            except SandboxUnavailable as error:
                return call.failed("sandbox_unavailable", str(error))
            except SandboxError as error:
                return call.failed("sandbox_lost", f"the sandbox was lost: {error}")
            try:
                request = _request(call, agent, placed, verdict, plan, asked_by=asked_by)
                with nullcontext() if asked_by is None else asked_by.waiting():
                    answer = await self._answer(call, request, verdict)
                if not answer.allowed:
                    patience_s = request.deadline - request.asked_at
                    return call.failed(answer.code, _refusal(request.shown, verdict, answer, patience_s))
                self.audit.record(of_elevated_command(call, agent.id, verdict, request.as_json(), answer.by))
                await self.audit.durable()
                reply = await (launch or partial(self._launch, agent, streams))(plan, timeout_s)
            except HostRefused as refusal:
                return call.failed(refusal.code, str(refusal))
            except AuditUnavailable as error:
                return call.failed("internal", f"nothing touches the host without a record: {error}")
            except SandboxError as error:
                return call.failed("internal", f"the command could not be run on the host: {error}", Place.HOST)
            finally:
                plan.close()
            return reply.as_result(call.id, Place.HOST, call.took_ms())

    async def _launch(self, agent: AgentSettings, streams: Streams | None, plan: Plan, timeout_s: float) -> Reply:
        from crabpot.host_commands import run  # noqa: PLC0415  as `host`

        sink = None if streams is None else streams.sink
        folder = os.path.realpath(plan.folder.path)
        # Relayed git works with the sandbox's git, and reads nothing of the folder.
        frozen = self.execution.fleet.frozen(lambda live: plan.relay is None and live.can_reach(folder))
        async with frozen, told_of_input(streams):
            return await run.run(
                plan,
                timeout_s=timeout_s,
                output_limit=agent.sandbox.limits.output,
                sink=sink,
            )

    async def _plan(  # noqa: PLR0913, PLR0917  as `run`
        self,
        call: ToolCall,
        agent: AgentSettings,
        placed: Placement,
        verdict: Verdict[Elevation],
        limit_s: float,
        holds: ExitStack,
    ) -> Plan:
        assert placed.scope_key is not None
        spec, _ = self.execution.describe(agent, placed.scope_key)
        if spec.private:
            # Opening the sandbox creates its folder on the host.
            await self.execution.acquire(agent, placed, call)
            # It has to stay while a person is asked, also where the sandbox ends and nothing was written in it.
            holds.callback((await private_folders.hold(self.execution.around.state, spec, agent.id)).release)
        turn = self._planning.setdefault(placed.scope_key, asyncio.Semaphore(_PLANS_AT_ONCE))
        async with turn:
            rule = verdict.answer.rule
            assert rule is not None

            async def inside() -> RunnerWire:
                return (await self.execution.acquire(agent, placed, call)).wire

            argv, cwd = verdict.answer.argv or (), call.args.get("cwd")
            return await self.host().prepare(argv, agent, spec, rule, cwd=cwd, limit_s=limit_s, inside=inside)

    async def _refused(self, agent: AgentSettings, placed: Placement, verdict: Verdict[Elevation]) -> Answer | None:
        """Return the denial of a command that nobody will be asked about: planning it costs more than asking."""
        if verdict.answer.decision is Decision.ELEVATED:
            return None
        try:
            return await self.desk.refused(agent.id, placed.scope_key or "")
        except StoreUnavailable:
            return None  # It is denied where it would be asked.

    async def _answer(self, call: ToolCall, request: Request, verdict: Verdict[Elevation]) -> Answer:
        if verdict.answer.decision is Decision.ELEVATED:
            return Answer(allowed=True, by="config")
        self.audit.record(of_request(request.as_json()))
        try:
            with call.stage("approval"):
                answer = await self.desk.decide(request)
        except StoreUnavailable as error:
            answer = denied(NOBODY, str(error))
        self.audit.record(of_answer(request.as_json(), answer.as_json()))
        return answer


def _checked(call: ToolCall, agent: AgentSettings) -> float:
    # Arguments that keep a command in the sandbox can only be unset here.
    odd = sorted(name for name, value in call.args.items() if name not in _TAKES and value not in (None, False))
    if odd:
        raise InvalidCall(f"on the host a command takes no {', '.join(odd)}; it takes command, cwd?, timeout?")
    if not isinstance(call.args.get("cwd"), str | None):
        raise InvalidCall("cwd must be text")
    # Installing and building take longer than an agent's commands inside, and a person agreed to it.
    return agent.sandbox.limits.time_ceiling if call.args.get("timeout") is None else time_limit(call.args, agent)


def _request(  # noqa: PLR0913  a call, its decisions, its plan, and who waits for it
    call: ToolCall,
    agent: AgentSettings,
    placed: Placement,
    verdict: Verdict[Elevation],
    plan: Plan,
    *,
    asked_by: Scope | None,
) -> Request:
    rule, now, patience_s = verdict.answer.rule, time.time(), agent.tools.elevated.approval_timeout
    assert rule is not None
    return Request(
        id=new_id(),
        session=call.session,
        agent=agent.id,
        scope_key=placed.scope_key or "",
        sender=call.sender,
        argv=plan.argv,
        binary=plan.binary,
        folder=FolderIdentity(**plan.folder.as_json()),
        pattern=rule.pattern,
        source=verdict.source,
        executes=plan.executes,
        dangers=plan.dangers,
        confine=plan.confined,
        writes=() if plan.guard is None else tuple(place.path for place in plan.guard.view.writes),
        effects=() if plan.relay is None else plan.relay.lines,
        covers="" if plan.relay is None else json.dumps(plan.relay.bound),
        credentials=() if plan.guard is None else _given(plan.argv, rule),
        lasting=plan.relay is not None or executes_nothing(plan.argv),
        asked_at=now,
        deadline=now + patience_s if asked_by is None else asked_by.deadline(now, patience_s),
    )


def _given(argv: tuple[str, ...], rule: ElevationRule) -> tuple[str, ...]:
    catalogued = needs(argv)
    return (*catalogued.shows, *catalogued.credentials, *rule.credentials)


def _refusal(command: str, verdict: Verdict[Elevation], answer: Answer, patience_s: float = 0) -> str:
    why = answer.reason or "the operator said no"
    if answer.code == "approval_timeout":
        why = f"nobody answered within {patience_s:g} s"
    elif answer.reason is not None and answer.by not in (NOBODY, GONE):
        why = f"the operator said no: {line(answer.reason)}"
    rule = f"{verdict.because} ({verdict.source})"
    return f"{command} {rule}, so it would run on the host, and {why}; it did not run"
