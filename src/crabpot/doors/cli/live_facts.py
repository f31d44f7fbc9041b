"""`explain --live`: the kernel's facts about each session's sandbox, beside its clauses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError
from crabpot.proof.verify.live import look

if TYPE_CHECKING:
    from crabpot.app import App


def add_facts(app: App, answers: list[dict[str, Any]]) -> None:
    """Open the sandbox of each answer's session, and add what was found there to the answer, under `live`."""
    asyncio.run(_add_facts(app, answers))


async def _add_facts(app: App, answers: list[dict[str, Any]]) -> None:
    gateway = app.gateway()
    try:
        for answer in answers:
            try:
                answer["live"] = (await look(gateway, answer["session"])).as_json()
            except CrabpotError as error:
                answer["live"] = {"error": str(error)}
    finally:
        await gateway.close()
