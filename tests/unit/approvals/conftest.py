"""Requests to ask about, and desks to ask at."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.approvals.desk import Desk
from crabpot.approvals.identity import Identity
from crabpot.approvals.requests import Answer, FolderIdentity, Request, new_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GIT = Identity(path="/usr/bin/git", dev=1, ino=2, size=3, mtime_ns=4, ctime_ns=4, sha256="5" * 64)
WORK = FolderIdentity(path="/home/me/agent", dev=1, ino=7)


def a_request(**changes: Any) -> Request:
    """Return a request that nothing is wrong with."""
    fields = {
        "id": new_id(),
        "session": "agent:main:telegram:42",
        "agent": "main",
        "scope_key": "agent:main:telegram:42",
        "sender": "alice",
        "argv": ("git", "push", "origin", "main"),
        "binary": GIT,
        "folder": WORK,
        "pattern": "git push *",
        "source": "tools.elevated.patterns[0]",
        "asked_at": time.time(),
        "deadline": time.time() + 60,
    }
    return Request(**{**fields, **changes})


class Scripted:
    """An approver that answers as it was told to, and remembers whom it was asked about."""

    def __init__(self, answer: Answer | Exception | None) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def ask(self, request: Request) -> Answer | None:
        self.asked.append(request.id)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture(name="a_request", scope="session")
def _a_request() -> Callable[..., Request]:
    return a_request


@pytest.fixture(scope="session")
def scripted() -> type[Scripted]:
    return Scripted


@pytest.fixture
def desk(tmp_path: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def opened(*approvers: Any) -> Any:
        made = Desk(str(tmp_path / "state"))
        for approver in approvers:
            made.attach(approver)
        try:
            yield made
        finally:
            await made.close()

    return opened
