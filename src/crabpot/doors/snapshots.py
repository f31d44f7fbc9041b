"""Snapshots and forks as doors offer them: one request, one answer of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.errors import LayerError
from crabpot.sandboxes.snapshots import Snapshots

if TYPE_CHECKING:
    from crabpot.gateway import Gateway

ACTIONS = ("save", "list", "restore", "remove")


async def answer(gateway: Gateway, request: dict[str, Any], *, by: str) -> dict[str, Any]:
    """Carry out `{action, session, name}`, or `{action: "fork", session, to: […]}`; LayerError says what is wrong.

    `by` is who asks, for the audit log.
    """
    try:
        return await _answer(Snapshots(gateway.execution, gateway.settings, gateway.audit, by=by), request)
    except OSError as error:
        # Such as a full disk: what was made half is gone again.
        raise LayerError(f"{error.filename or 'it'}: {error.strerror}; nothing was changed") from None


async def _answer(kept: Snapshots, request: dict[str, Any]) -> dict[str, Any]:
    action, session = request.get("action"), str(request.get("session"))
    if action == "list":
        return {"session": session, "snapshots": [one.as_json() for one in kept.all(session)]}
    if action == "fork":
        others = request.get("to")
        if not isinstance(others, list) or not others or not all(isinstance(one, str) for one in others):
            raise LayerError("a fork needs the sessions to make: to, a list of session keys")
        await kept.fork(session, *others)
        return {"session": session, "forked": others}
    name = request.get("name")
    if not isinstance(name, str):
        raise LayerError("which one? a snapshot has a name")
    if action == "save":
        return {"session": session, "saved": (await kept.save(session, name)).as_json()}
    if action == "restore":
        await kept.restore(session, name)
        return {"session": session, "restored": name}
    if action == "remove":
        await kept.remove(session, name)
        return {"session": session, "removed": name}
    raise LayerError(f"{action!r} is no action: {', '.join(ACTIONS)} or fork")
