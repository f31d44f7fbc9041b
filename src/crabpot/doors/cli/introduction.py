"""What a run tells the person before the agent has the terminal: where it works, what it may, and who is asked."""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from crabpot.config.places import find_state
from crabpot.doors.cli.show import visible
from crabpot.doors.local.client import connect
from crabpot.errors import CrabpotError
from crabpot.presets import plan as plans

if TYPE_CHECKING:
    from crabpot.app import App
    from crabpot.presets.plan import RunPlan
    from crabpot.settings import Settings

_WAYS = {"review": "under review: your folder stays as it is until you apply", "direct": "which it may change"}


async def lines(app: App, plan: RunPlan, settings: Settings) -> list[str]:
    """Return the lines, in which nothing deceives the eye."""
    where = "a private folder" if plan.way == "private" else f"{plan.folder}, {_WAYS[plan.way]}"
    allowed = plan.agent.sandbox.network.allow
    told = [f"{plan.name} in {where}", f"home {plan.home} · hosts: {', '.join(allowed) or 'none'}"]
    if plan.keys:
        told.append(f"{', '.join(plan.keys)}: kept outside; inside is a dummy")
    commands = settings.agent(plans.AGENT).sandbox.host_commands
    if commands:
        told.append(f"asks you before it runs on the host: {', '.join(commands)}")
    told.append(f"questions: {await _where_asked(app)}")
    return [visible(text) for text in (*told, *plan.notes)]


async def _where_asked(app: App) -> str:
    """Return the dashboard's address, if a gateway of this state folder shows one, and the command that asks."""
    usual = find_state(None, {}, app.around.home)
    elsewhere = [] if app.around.state == usual else ["--state", app.around.state]
    watch = f"{shlex.join(['crabpot', *elsewhere, 'approvals', 'watch'])}, in another terminal"
    pages = [one for one in await _addresses(app.around.state) if one.startswith("http://")]
    return f"{pages[0]}/ (the dashboard), or {watch}" if pages else watch


async def _addresses(state: str) -> list[str]:
    with suppress(CrabpotError):
        remote = await connect(state)
        if remote is not None:
            try:
                return [str(one) for one in await remote.inquire("addresses")]
            finally:
                await remote.close()
    return []
