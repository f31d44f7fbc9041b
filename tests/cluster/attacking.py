"""Attacks on pods of another kind than those of the escape suite: what came of each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from crabpot import app
from crabpot.config.load import from_text
from crabpot.proof.verify import trial
from crabpot.proof.verify.run import targets, verify

if TYPE_CHECKING:
    from collections.abc import Collection


async def findings(text: str, only: Collection[str]) -> list[dict[str, Any]]:
    """Attack a sandbox of this configuration by the claims or groups that are named."""
    with trial.folder() as place:
        wired = app.start(config=None, state=f"{place}/state", environ=os.environ)
        settings = from_text(text, None, wired.around, os.environ)
        tried = trial.prepare(settings, "agent:main:x", place, wired.around, backend="kubernetes")
        async with targets(lambda: wired.gateway(settings=tried.settings), tried.session, tried.other) as target:
            found = [finding.as_json() for finding in await verify(target, only=only)]
    for one in found:
        print(one["state"], one["claim"], "" if one["state"] == "held" else one["came_back"])
    return found
