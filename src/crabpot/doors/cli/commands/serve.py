"""`serve`: one gateway for many clients, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from crabpot.doors import review, sandboxes
from crabpot.doors.cli.commands.approvals import Queue
from crabpot.doors.cli.frame import OK, UsageError, note
from crabpot.doors.cli.shutdown import Shutdown
from crabpot.doors.local import server as door
from crabpot.doors.systemd import notify
from crabpot.errors import CrabpotError
from crabpot.scheduling.threads import FairThreads, go_first

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.doors.http.listening import Address
    from crabpot.gateway import Gateway

_SWEEP_S = 60.0


def serve(frame: Frame, options: Namespace) -> int:
    """Keep a gateway alive until a signal ends it."""
    # The HTTP and MCP doors take a second to import: only pay for them when serving.
    from crabpot.doors.http.listening import address  # noqa: PLC0415

    try:
        at = None if options.listen is None else address(options.listen)
    except CrabpotError as error:
        raise UsageError(str(error)) from None
    go_first()
    asyncio.run(_serve(frame.app(), at))
    return OK


async def _serve(app: App, at: Address | None) -> None:
    from crabpot.doors.http.door import opened  # noqa: PLC0415

    # One agent's work in threads must keep no other agent, and no operator, waiting.
    asyncio.get_running_loop().set_default_executor(FairThreads(initializer=go_first))
    shutdown = Shutdown()
    shutdown.listen()
    gateway = app.gateway()
    shutdown.last_words = gateway.audit.close
    gateway.desk.attach(Queue(app.around.state))

    where: list[str] = []

    async def inquire(name: str, args: dict[str, Any]) -> Any:
        return where if name == "addresses" else await _inquire(gateway, name, args)

    try:
        async with (
            door.serve(gateway, app.around.state, inquire, config=app.config) as path,
            opened(gateway, at) as listening,
        ):
            where += listening
            gateway.execution.warm_up(gateway.settings)
            notify("READY=1", os.environ)
            print(f"crabpot serves on {path}, and HTTP on {' and '.join(where)}; end it with Ctrl-C", flush=True)
            for text in _dashboard(app.around.state, where):
                print(text, flush=True)
            told: set[str] = set()
            while not shutdown.asked.is_set():
                await sandboxes.sweep(gateway)
                await _warn(gateway, told)
                try:
                    await asyncio.wait_for(shutdown.asked.wait(), _SWEEP_S)
                except TimeoutError:
                    continue
    finally:
        await gateway.close()


async def _warn(gateway: Gateway, told: set[str]) -> None:
    """Warn once of each stale layer that stays because nobody looked at it."""
    found = await asyncio.to_thread(sandboxes.unseen, gateway.execution.around.state, gateway.settings)
    for warning in found:
        if warning not in told:
            note(f"warning: {warning}")
    told.clear()
    told.update(found)


def _dashboard(state: str, where: list[str]) -> Iterator[str]:
    """Return where the dashboard is. The token itself is for a person's eyes: standard output may be a log."""
    from crabpot.doors.http.access.tokens import OPERATORS  # noqa: PLC0415  as `serve`

    address = next((one for one in where if one.startswith("http://")), None)
    if address is None:
        return
    file = os.path.join(state, OPERATORS)
    if sys.stdout is not None and sys.stdout.isatty():
        with open(file, encoding="ascii") as stream:
            yield f"dashboard: {address}/#token={stream.read().strip()}"
    else:
        yield f"dashboard: {address}/ (its token is in {file})"


async def _inquire(gateway: Gateway, name: str, args: dict[str, Any]) -> Any:
    if name == "tools":
        host_allowed = args.get("host_allowed", True) is True
        return await gateway.offered(str(args.get("session")), host_allowed=host_allowed)
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
