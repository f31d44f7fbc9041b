"""`explain` and `check`."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from crabpot.decide.sessions import is_agent_id
from crabpot.decide.sessions import parse as parse_session
from crabpot.doors.cli import show
from crabpot.doors.cli.frame import FAILED, OK, USAGE, UsageError, shell_text
from crabpot.doors.cli.invocation import pasted
from crabpot.errors import CrabpotError
from crabpot.scheduling.event_loop import in_loop, run

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.decide.check.finding import Finding
    from crabpot.doors.cli.frame import Frame
    from crabpot.doors.local.client import RemoteGateway
    from crabpot.explain import Explainer
    from crabpot.settings import Settings


def explain(frame: Frame, options: Namespace) -> int:
    """Explain the sessions named, or main and every session seen."""
    app = frame.app()
    explainer = app.explainer()
    # With --live each session's sandbox is opened: not those of every key that was ever used.
    seen = [] if options.live else app.sessions_seen()
    keys = options.session or [*seen, *_usual_keys(explainer.settings, options.agent)]
    if options.agent is not None:
        default = explainer.settings.default_agent
        keys = [key for key in keys if parse_session(key, default_agent=default).agent == options.agent.lower()]
        if not keys:
            raise UsageError(f'none of these sessions belongs to the agent "{options.agent}"')
    command = shell_text(options.command) if options.command else None
    wanted = list(dict.fromkeys(keys))
    answers = run(_answers(app, explainer, wanted, command, options))
    if options.live:
        from crabpot.doors.cli.live_facts import add_facts  # noqa: PLC0415  only --live opens sandboxes

        add_facts(app, answers)
    if options.json:
        print(json.dumps(answers[0] if len(answers) == 1 else answers, indent=2))
        return OK
    for line in show.explanation(answers, explainer, colour=show.wants_colour(sys.stdout)):
        print(line)
    return OK


async def _answers(
    app: App, explainer: Explainer, keys: list[str], command: str | None, options: Namespace
) -> list[dict[str, Any]]:
    asked = {"sender": options.sender, "connect": options.connect}
    serving = await _serving(app)
    if serving is None:
        return [await explainer.explain(key, command, **asked) for key in keys]
    try:
        return [await serving.inquire("explain", session=key, command=command, **asked) for key in keys]
    finally:
        await serving.close()


async def _serving(app: App) -> RemoteGateway | None:
    """Return the gateway that calls would go to, if one serves: it runs elsewhere, with walls of its own."""
    if not os.path.exists(os.path.join(app.around.state, "serve.sock")):
        return None
    from crabpot.doors.local import client  # noqa: PLC0415  most have none

    await in_loop()
    found = await client.connect(app.around.state)
    if found is not None and not found.decides_by(app.config):
        await found.close()
        return None
    return found


def _usual_keys(settings: Settings, agent: str | None) -> list[str]:
    if agent is not None and not is_agent_id(agent):
        raise UsageError(f'"{agent}" cannot be an agent\'s id')
    return [f"agent:{agent.lower() if agent else settings.default_agent}:main"]


def _on_this_machine(app: App, settings: Settings) -> tuple[list[str], list[Finding]]:
    """Return the limits that this machine does not keep in full, and why an agent's sandboxes would not open."""
    from crabpot.decide.check.finding import warn  # noqa: PLC0415  explain does not need it here
    from crabpot.sandboxes import remarks  # noqa: PLC0415  as above
    from crabpot.spec.build import build  # noqa: PLC0415  as above

    notes: dict[str, None] = {}
    found = []
    for agent in (settings.agent(settings.default_agent), *settings.entries.values()):
        # Another backend's engine is for `doctor` to look at.
        if agent.sandbox.mode == "off" or agent.sandbox.backend not in ("auto", "bubblewrap"):
            continue
        try:
            _, clauses = run(app.registry().clauses(build(agent, f"agent:{agent.id}", app.around)))
        except (ValueError, CrabpotError):
            continue
        notes |= dict.fromkeys(remark.text for remark in remarks.of_limits(clauses))
        for clause in clauses:
            if clause.state == "refused":
                why, _, fix = clause.how.rpartition(": ")
                found.append(warn(agent.source("sandbox"), f"no sandbox opens: {why or clause.name}", fix))
    return list(notes), list(dict.fromkeys(found))


def check(frame: Frame, options: Namespace) -> int:
    """List the findings; return 2 for errors, and 1 for warnings under --strict."""
    from crabpot.decide import check as checks  # noqa: PLC0415  explain does not need it here
    from crabpot.doors.http.access import token_check  # noqa: PLC0415  as above

    app = frame.app()
    settings = app.settings()
    found = [*checks.check(settings, app.around), *token_check.findings(settings, app.around.state)]
    notes, refusals = _on_this_machine(app, settings)
    found += refusals
    for text in notes:
        print(f"note: {pasted(text)}")
    for line in show.findings(found, settings.file, colour=show.wants_colour(sys.stdout)):
        print(line)
    if any(finding.severity == "error" for finding in found):
        return USAGE
    return FAILED if found and options.strict else OK
