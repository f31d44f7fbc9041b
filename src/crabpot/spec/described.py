"""The specs of an agent's scopes, one after another: the next differs from the one before in little."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from crabpot.spec.build import build, workspace_inside
from crabpot.spec.naming import private_folder, sandbox_name

if TYPE_CHECKING:
    from crabpot.settings import AgentSettings
    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import SandboxSpec


class Described(NamedTuple):
    """A spec, and the settings that it was built from."""

    agent: AgentSettings
    spec: SandboxSpec


def describe(agent: AgentSettings, scope_key: str, around: Surroundings, before: Described | None) -> Described:
    """Describe the sandbox of a scope; what is the same for all scopes of an agent is kept from the one before."""
    if before is None or before.agent is not agent:
        return Described(agent, build(agent, scope_key, around))
    sandbox, like = agent.sandbox, before.spec
    on_host = sandbox.workspace != "none" or sandbox.binds or sandbox.programs
    if on_host or workspace_inside(agent, scope_key, around) != like.workspace_at:
        # A link on the host may lead elsewhere by now, and is resolved or refused again.
        return Described(agent, build(agent, scope_key, around).related_to(like))
    name = sandbox_name(scope_key)
    return Described(agent, like.owned_by(scope_key, name, private_folder(around.state, name)))
