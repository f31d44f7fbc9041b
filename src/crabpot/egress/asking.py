"""A place that is not listed, as a question to an operator; and writing it down where the answer says so."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from crabpot.config import edit
from crabpot.elevation.requests import Request, new_id

if TYPE_CHECKING:
    from crabpot.egress.destinations import Destination
    from crabpot.placement.scope import Scope


def request(destination: Destination, scope: Scope, source: str) -> Request:
    """Ask for one host and port; a lease that comes of it holds for just these."""
    now = time.time()
    return Request(
        id=new_id(),
        kind="connection",
        session=scope.session,
        agent=scope.agent.id,
        scope_key=scope.key,
        host=destination.host,
        port=destination.port,
        pattern="network.ask",
        source=source,
        asked_at=now,
        deadline=now + scope.agent.tools.elevated.approval_timeout,
    )


def write_down(file: str | None, network: str, destination: Destination) -> None:
    """Add a place to the allow list that stands at `network` in the configuration; without a file nothing is kept."""
    if file is None:
        return
    with open(file, encoding="utf-8", newline="") as stream:
        text = stream.read()
    edit.write_atomically(file, edit.set_value(text, f"{network}.allow[+]", json.dumps(str(destination))))
