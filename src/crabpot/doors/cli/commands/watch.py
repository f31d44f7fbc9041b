"""`approvals watch`: ask on this terminal what waits anywhere, while an agent owns another one."""

from __future__ import annotations

import asyncio
import getpass
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.approvals.store import Store
from crabpot.doors.cli.commands.exec import finished
from crabpot.doors.cli.frame import complain, note
from crabpot.doors.cli.terminal import prompt
from crabpot.doors.cli.terminal.console import Console
from crabpot.state.ownership import take

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.approvals.approver import Approver
    from crabpot.approvals.requests import Answer, Request
    from crabpot.doors.cli.frame import Frame

_LOOK_S = 0.25


def watch(frame: Frame, options: Namespace) -> int:  # noqa: ARG001  every command takes its options
    """Ask each request that waits, one after the other, until interrupted."""
    state = frame.app().around.state
    note("asks here what waits in any gateway of this state folder; Ctrl-C ends it, and requests stay pending")
    return finished(_watch(state))


async def _watch(state: str) -> int:
    take(state)
    store = Store(state)
    asked: set[str] = set()
    try:
        approver = prompt.approver(Console(), state)
        while True:
            for request in store.pending():
                if request.id not in asked:
                    asked.add(request.id)
                    await _put(store, approver, request)
            await asyncio.sleep(_LOOK_S)
    finally:
        store.close()


async def _put(store: Store, approver: Approver, request: Request) -> None:
    answer = await _asked(store, approver, request)
    if answer is None:
        return
    problem = request.problem_with(answer)
    if problem is not None:
        complain(problem)
    elif not store.answer(request.id, replace(answer, by=f"operator {getpass.getuser()}")):
        complain(f"{request.id} is no longer pending: it was answered elsewhere, it expired, or its gateway has ended")


async def _asked(store: Store, approver: Approver, request: Request) -> Answer | None:
    """Ask, until there is an answer here or the request is settled elsewhere."""
    asking = asyncio.ensure_future(approver.ask(request))
    try:
        while not asking.done():
            await asyncio.wait((asking,), timeout=_LOOK_S)
            if not asking.done() and request.id not in {one.id for one in store.pending()}:
                return None
        return asking.result()
    finally:
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
