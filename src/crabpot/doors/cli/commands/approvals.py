"""`approvals` and `leases`: answer requests from any terminal, whichever gateway of the state folder waits."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import time
from typing import TYPE_CHECKING

from crabpot.approvals.display import line
from crabpot.approvals.leases import Leases
from crabpot.approvals.requests import MOST_MINUTES, Answer, denied, left_s
from crabpot.approvals.store import FILE_NAME, Store
from crabpot.doors.cli.frame import FAILED, OK, UsageError, complain
from crabpot.doors.cli.invocation import on
from crabpot.doors.cli.nonblocking_output import NonblockingOutput
from crabpot.doors.cli.terminal import question
from crabpot.errors import CrabpotError
from crabpot.state.ownership import take
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from crabpot.approvals.requests import Grant, Request
    from crabpot.doors.cli.frame import Frame


class Queue:
    """The approver of `serve`: prints that a request waits, and leaves the answer to others."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._output = NonblockingOutput()

    async def ask(self, request: Request) -> Answer | None:
        """Print the request, and wait until somebody has answered."""
        while True:
            self._output.write(question.notice(request, self._state))
            # Again, below whatever was printed since.
            await asyncio.sleep(question.REMIND_S)


@contextlib.contextmanager
def _store(frame: Frame) -> Iterator[Store | None]:
    """Open the store, or return None if there is none. Looking must not create it."""
    state = frame.app().around.state
    if not os.path.exists(os.path.join(state, FILE_NAME)):
        yield None
        return
    take(state)
    store = Store(state)
    try:
        yield store
    finally:
        store.close()


def list_requests(frame: Frame, options: Namespace) -> int:
    """List the pending requests."""
    with _store(frame) as store:
        waiting = [] if store is None else store.pending()
    if options.json:
        print(json.dumps([request.as_json() for request in waiting], indent=2))
        return OK
    for request in waiting:
        for text in question.lines(request):
            print(text)
        how = f"{on(frame.app().around.state)} approvals"
        print(f"  {left_s(request, time.time())} s left: {how} allow {request.id}   or: {how} deny {request.id}")
    if not waiting:
        print("no pending requests")
    return OK


def show_request(frame: Frame, options: Namespace) -> int:
    """Show one request in full."""
    with _store(frame) as store:
        request = None if store is None else store.find(options.id)
    if request is None:
        raise _unknown(options.id)
    print(json.dumps(request.as_json(), indent=2))
    return OK


def allow(frame: Frame, options: Namespace) -> int:
    """Allow a request."""
    grant: Grant = "session" if options.session else "config" if options.list else "once"
    if options.minutes is not None:
        grant = "minutes"
        if options.minutes > MOST_MINUTES:
            raise UsageError(f"--minutes takes at most {MOST_MINUTES}, which is a week")
    if options.keep and grant in ("once", "config"):
        raise UsageError("--keep needs a lease: add --session or --minutes N")
    content = None if options.answer is None else _content(options.answer)
    answer = Answer(allowed=True, grant=grant, minutes=options.minutes, keep=options.keep, by=_me(), content=content)
    return _give(frame, options.id, answer)


def _content(text: str) -> dict[str, object]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--answer takes JSON: {error}") from None
    if not isinstance(given, dict):
        raise UsageError("--answer takes an object, by the names of the form")
    return given


def deny(frame: Frame, options: Namespace) -> int:
    """Deny a request."""
    return _give(frame, options.id, denied(_me(), options.reason))


def _give(frame: Frame, request_id: str, answer: Answer) -> int:
    with _store(frame) as store:
        request = None if store is None else store.find(request_id)
        if store is None or request is None:
            raise _unknown(request_id)
        if problem := request.problem_with(answer):
            raise UsageError(problem)
        if store.answer(request_id, answer):
            print(f"{request_id}: {question.outcome(answer, request)}: {request.shown}")
            if answer.grant == "config":
                where = f"agents.entries.{request.agent}.sandbox.network"
                print(f"its gateway lists it for the agent {request.agent} alone: {where}")
            return OK
    complain(f"{request_id} is no longer pending: it was answered, it expired, or its gateway has ended")
    return FAILED


def list_leases(frame: Frame, options: Namespace) -> int:
    """List the leases in force."""
    with _store(frame) as store:
        leases = [] if store is None else Leases(store).listed()
    if options.json:
        print(json.dumps([lease.as_json() for lease in leases], indent=2))
        return OK
    for lease in leases:
        request, left = lease.request, None if lease.expires_at is None else lease.expires_at - time.time()
        lasts = "until its gateway ends" if left is None else f"{left / 60:.0f} min left"
        lasts = "until revoked" if left is None and lease.keep else lasts
        print(f"{lease.id}  {request.shown}")
        where = "-" if request.folder is None else line(request.folder.path)
        sender = "not named" if request.sender is None else line(request.sender)
        print(f"          {lasts} · used {counted(lease.uses, 'time')} · in {where}")
        print(f"          scope {line(request.scope_key)} · sender {sender}")
    if not leases:
        print("no leases")
    return OK


def revoke(frame: Frame, options: Namespace) -> int:
    """End a lease."""
    with _store(frame) as store:
        if store is not None and Leases(store).revoke(options.id):
            print(f"{options.id}: revoked; the next request is asked again")
            return OK
    raise CrabpotError(f"no lease in force has the id {options.id!r}; see: crabpot leases list")


def _unknown(request_id: str) -> CrabpotError:
    return CrabpotError(f"no request has the id {request_id!r}; see: crabpot approvals list")


def _me() -> str:
    try:
        return f"operator {getpass.getuser()}"
    except (KeyError, OSError):
        return f"operator {os.geteuid()}"
