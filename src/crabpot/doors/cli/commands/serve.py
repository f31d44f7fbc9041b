"""`serve`: one gateway for many clients, until a signal or `serve stop` ends it; it takes a changed configuration."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from typing import TYPE_CHECKING, Any

from crabpot.doors import inquiries, sandboxes
from crabpot.doors.cli.frame import FAILED, OK, UsageError, complain, note
from crabpot.doors.systemd import notify
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.doors.e2b.door import E2bDoor
    from crabpot.doors.http.certificate import Certificate
    from crabpot.doors.http.listening import Address
    from crabpot.gateway import Gateway

# What one of the three ways needs is of no use to the others.
# ruff: noqa: PLC0415

_SWEEP_S = 60.0
_GIVE_WAY_S = 0.00003
_GARBAGE_AFTER = 1000


def serve(frame: Frame, options: Namespace) -> int:
    """Keep a gateway alive until it is told to end, or end or reload the one that is."""
    if options.action is not None:
        return asyncio.run({"stop": _stop, "reload": _reload}[options.action](frame.app().around.state))
    from crabpot.scheduling.threads import go_first

    if options.lingering is not None:
        from crabpot.doors.local import detaching, lingering

        detaching.leave_the_caller()
        go_first()
        asyncio.run(lingering.linger(frame.app(), options.lingering))
        return OK
    from crabpot.doors.http.listening import address
    from crabpot.scheduling.fair_loop import FairLoop

    try:
        certificate = _certificate(options)
        at = None if options.listen is None else address(options.listen, certificate)
    except CrabpotError as error:
        raise UsageError(str(error)) from None
    go_first()
    # A thread that computes gives way to the loop this soon, not after five milliseconds.
    sys.setswitchinterval(_GIVE_WAY_S)
    with asyncio.Runner(loop_factory=FairLoop) as runner:
        runner.run(_serve(frame.app(), at))
    return OK


def _certificate(options: Namespace) -> Certificate | None:
    """Return the certificate of the command line, which can be used; CrabpotError says why it cannot."""
    from crabpot.doors.http.certificate import Certificate

    files = (options.tls_cert, options.tls_key)
    if files == (None, None):
        return None
    if None in files or options.listen is None:
        raise CrabpotError("--listen ADDRESS:PORT, --tls-cert FILE and --tls-key FILE belong together")
    made = Certificate(certificate=options.tls_cert, key=options.tls_key)
    made.load()
    made.names()
    return made


async def _serve(app: App, at: Address | None) -> None:
    # The HTTP door takes long to import: only pay for it when serving.
    from crabpot.doors.cli.commands.approvals import Queue
    from crabpot.doors.http.door import opened
    from crabpot.doors.late_import import imported
    from crabpot.doors.local import server as door
    from crabpot.doors.local.ending import take_over
    from crabpot.doors.local.reloading import Reloading
    from crabpot.doors.local.server import fingerprint
    from crabpot.doors.shutdown import Shutdown
    from crabpot.scheduling.threads import FairThreads, go_first

    e2b: E2bDoor | None = None

    # One agent's work in threads must keep no other agent, and no operator, waiting.
    asyncio.get_running_loop().set_default_executor(FairThreads(initializer=go_first))
    shutdown = Shutdown()
    shutdown.listen()
    # Before it is read: a change after that is found, and not missed.
    written = fingerprint(app.config)
    gateway = app.gateway()
    reloading = Reloading(app, gateway, written)
    shutdown.last_words = gateway.audit.close
    gateway.desk.attach(Queue(app.around.state))

    where: list[str] = []

    async def inquire(name: str, args: dict[str, Any]) -> Any:
        nonlocal e2b
        if name == "addresses":
            return where
        if name == "end":
            return shutdown.ask()
        if name == "reload":
            return await reloading.reload()
        if name == "gateway":
            return {"pid": os.getpid(), "lingers_s": None, "idle_s": None}
        if name == "e2b" and where:
            made = await imported(_e2b_door)
            e2b = e2b or made(listeners)
            return {"url": await e2b.open()}
        return await inquiries.answer(gateway, name, args)

    try:
        await take_over(app.around.state)
        async with (
            door.serve(gateway, app.around.state, inquire, adopted=lambda: reloading.adopted) as path,
            opened(gateway, at) as listeners,
            reloading.by_itself(complain),
        ):
            where += listeners.where
            gateway.execution.spare_by_default = True
            gateway.execution.warm_up(gateway.settings)
            # Everybody waits while garbage is collected: often and little, and never through what was imported.
            gc.freeze()
            gc.set_threshold(_GARBAGE_AFTER)
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


def _e2b_door() -> type[E2bDoor]:
    from crabpot.doors.e2b.door import E2bDoor

    return E2bDoor


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
    from crabpot.doors.http.access.tokens import OPERATORS

    address = next((one for one in where if one.startswith(("http://", "https://"))), None)
    if address is None:
        return
    file = os.path.join(state, OPERATORS)
    if sys.stdout is not None and sys.stdout.isatty():
        with open(file, encoding="ascii") as stream:
            yield f"dashboard: {address}/#token={stream.read().strip()}"
    else:
        yield f"dashboard: {address}/ (its token is in {file})"


async def _stop(state: str) -> int:
    from crabpot.doors.local.ending import end

    pid = await end(state)
    if pid is None:
        complain(f"no gateway serves {state}")
        return FAILED
    print(f"the gateway {pid} has ended")
    return OK


async def _reload(state: str) -> int:
    from crabpot.doors.local.client import connect

    remote = await connect(state)
    if remote is None:
        complain(f"no gateway serves {state}")
        return FAILED
    try:
        changed = await remote.reload()
    finally:
        await remote.close()
    if not changed:
        print("nothing had changed")
    elif remote.lingers is None:
        print("reloaded: the next calls are decided by the file as it is now")
    else:
        print("the lingering gateway takes no more calls: the next one starts another, by the file as it is now")
    return OK
