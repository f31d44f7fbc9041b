"""Find what a configuration exposes that its author may not have meant, each with its fix.

May import: the decisions, spec, settings and below.
Must never enter: a finding without its fix, and changes to anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.decide.check import configuration, folders
from crabpot.decide.check.finding import Finding

if TYPE_CHECKING:
    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.binds import Surroundings

__all__ = ["Finding", "check", "findings"]


def check(settings: Settings, around: Surroundings) -> list[Finding]:
    """Return the findings for the file and every agent; those that several agents share appear once."""
    agents = [settings.defaults, *settings.entries.values()]
    of_agents = (finding for agent in agents for finding in findings(agent, around))
    return list(
        dict.fromkeys(
            (
                *folders.of_file(settings.file),
                *configuration.of_gateway(settings),
                *configuration.of_runner(settings),
                *of_agents,
            )
        )
    )


def findings(agent: AgentSettings, around: Surroundings) -> list[Finding]:
    """Return the findings for one agent's settings."""
    return [*configuration.findings(agent), *folders.findings(agent, around)]
