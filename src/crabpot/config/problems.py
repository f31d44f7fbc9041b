"""Find settings that have the right type and a value that cannot work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.decide import policy
from crabpot.spec.naming import is_variable_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crabpot.settings import AgentSettings, Audit, Elevated, Gateway

FEWEST_RECORDS = 100


def of_tools(agent: AgentSettings, extra: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the path and message of each problem with an agent's tools; `extra` are the names that a layer declares."""
    tools = agent.tools
    if tools.profile is not None and (wrong := policy.problem_with_profile(tools.profile)):
        yield "tools.profile", wrong
    lists = {
        "tools.allow": tools.allow,
        "tools.deny": tools.deny,
        "tools.sandbox.allow": tools.sandbox.allow,
        "tools.sandbox.deny": tools.sandbox.deny,
    }
    for path, rules in lists.items():
        for index, rule in enumerate(rules or ()):
            if wrong := policy.problem_with(rule, extra):
                yield f"{path}[{index}]", wrong
    for index, name in enumerate(tools.extra):
        if wrong := policy.problem_with_extra(name):
            yield f"tools.extra[{index}]", wrong
    yield from _of_elevated(tools.elevated)


def of_gateway(gateway: Gateway) -> Iterator[tuple[str, str]]:
    """Yield the path and message of each problem with the gateway's limits."""
    if gateway.max_sandboxes < 1:
        yield "gateway.maxSandboxes", "must be at least 1: no sandboxed call could run"
    if gateway.max_sandboxes_per_agent < 1:
        yield "gateway.maxSandboxesPerAgent", "must be at least 1: no sandboxed call could run"


def of_audit(audit: Audit) -> Iterator[tuple[str, str]]:
    """Yield the path and message of each problem with the audit log's settings."""
    if audit.rotate < FEWEST_RECORDS:
        yield "audit.rotate", f"must be at least {FEWEST_RECORDS} records"
    if audit.keep_days is not None and audit.keep_days <= 0:
        yield "audit.keepDays", "must be above zero; leave it out to keep every record"


def _of_elevated(elevated: Elevated) -> Iterator[tuple[str, str]]:
    if elevated.approval_timeout <= 0:
        yield "tools.elevated.approvalTimeout", "must be above zero: nobody could answer in time"
    for folder in ("/" if elevated.path is None else elevated.path).split(":"):
        if not folder.startswith("/"):
            yield "tools.elevated.path", f'"{folder}" must be an absolute folder, as in "/usr/bin:/bin"'
    for index, name in enumerate(elevated.pass_env):
        if not is_variable_name(name):
            yield f"tools.elevated.passEnv[{index}]", f"{name!r} cannot be the name of a variable"
