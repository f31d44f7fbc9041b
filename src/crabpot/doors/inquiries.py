"""What the clients of a gateway ask besides tool calls, answered where that gateway runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.doors import review, sandboxes
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from crabpot.gateway import Gateway


async def answer(gateway: Gateway, name: str, args: dict[str, Any]) -> Any:
    """Answer one inquiry."""
    if name in ("tools", "passes", "stamps"):
        host_allowed = args.get("host_allowed", True) is True
        asks: dict[str, Any] = {"tools": gateway.offered, "passes": gateway.passes, "stamps": gateway.stamps}
        return await asks[name](str(args.get("session")), host_allowed=host_allowed)
    if name == "live":
        return sandboxes.live(gateway)
    if name == "stop":
        return await sandboxes.stop(gateway, str(args.get("scope_key")))
    if name == "prune":
        return await sandboxes.sweep(gateway)
    if name in review.INQUIRIES:
        return await review.answer(gateway, name, str(args.get("scope_key")))
    if name == "snapshots":
        from crabpot.doors import snapshots  # noqa: PLC0415  most gateways are never asked

        request = args.get("request")
        return await snapshots.answer(gateway, request if isinstance(request, dict) else {}, by="the terminal")
    if name == "ports":
        from crabpot.doors import ports  # noqa: PLC0415  as snapshots

        return await ports.answer(gateway, args)
    if name == "servers.restart":
        return 0 if gateway.servers is None else await gateway.servers.restart(str(args.get("server")))
    if name == "explain":
        return await _explain(gateway, args)
    raise CrabpotError(f"unknown inquiry {name!r}")


async def _explain(gateway: Gateway, args: dict[str, Any]) -> dict[str, Any]:
    """Explain a session where this gateway runs: its unit, not the caller's terminal, has the control groups."""
    from crabpot.explain import Explainer  # noqa: PLC0415  few ask

    execution = gateway.execution
    explainer = Explainer(settings=gateway.settings, around=execution.around, registry=execution.registry)
    asked = {name: None if args.get(name) is None else str(args[name]) for name in ("command", "sender", "connect")}
    return await explainer.explain(str(args.get("session")), **asked)
