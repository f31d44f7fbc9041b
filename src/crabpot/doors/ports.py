"""The ports of live sandboxes as doors show, open and close them: one request, one answer of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.audit.records import of_port
from crabpot.decide import placement, sessions
from crabpot.errors import CrabpotError
from crabpot.model import Place
from crabpot.sandboxes.ports import Ports

if TYPE_CHECKING:
    from crabpot.gateway import Gateway
    from crabpot.sandboxes.live import Live

ACTIONS = ("list", "open", "close")
_HIGHEST = 65535


async def answer(gateway: Gateway, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Carry out `{action, session?, port?}`, and return the ports that are open then; CrabpotError says what is wrong.

    Without a session it is about the only live sandbox, or lists the ports of all.
    """
    action, session, port = request.get("action"), request.get("session"), request.get("port")
    if action == "list":
        return [row for live in _listed(gateway, session) for row in _rows(live)]
    if action not in ACTIONS or type(port) is not int or not 0 < port <= _HIGHEST:
        raise CrabpotError("a port is a number from 1 to 65535, to open or to close")
    live = _only(_listed(gateway, session), session)
    if live.ports is None:
        live.ports = Ports(live.wire)
    if action == "open":
        await live.ports.open((port,))
    elif not live.ports.close(port):
        raise CrabpotError(f"port {port} of {live.key[1]} is not open; see: crabpot ports list")
    where = live.ports.opened.get(port)
    gateway.audit.record(of_port(live.key[1], live.agent, action, port, where))
    return _rows(live)


def _listed(gateway: Gateway, session: object) -> list[Live]:
    found = [one for one in gateway.execution.fleet.listed() if one.key[0] is Place.SANDBOX and not one.lost]
    named = [one for one in found if session in (None, one.key[1])]
    if named or session is None:
        return named
    key = sessions.parse(str(session), default_agent=gateway.settings.default_agent)
    placed = placement.decide(key, gateway.settings.agent(key.agent)).answer
    return [one for one in found if one.key == (placed.where, placed.scope_key)]


def _only(found: list[Live], session: object) -> Live:
    if not found:
        whose = "" if session is None else f" of {session}"
        raise CrabpotError(f"no sandbox{whose} is running here; its first call opens one")
    if len(found) > 1:
        keys = ", ".join(one.key[1] for one in found)
        raise CrabpotError(f"which sandbox? Name one by --session: {keys}")
    return found[0]


def _rows(live: Live) -> list[dict[str, Any]]:
    opened = {} if live.ports is None else live.ports.opened
    return [
        {"session": live.key[1], "port": inside, "address": f"http://127.0.0.1:{outside}"}
        for inside, outside in sorted(opened.items())
    ]
