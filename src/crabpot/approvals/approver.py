"""Who can answer a request: anything with a method `ask`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from crabpot.approvals.requests import Answer, Request


class Approver(Protocol):
    """A place where an operator may answer: a terminal, a page, a program's callback."""

    async def ask(self, request: Request) -> Answer | None:
        """Return an answer, or None if none can be given here. Cancelled once somebody else has answered."""
        ...


@dataclass(slots=True, eq=False)
class Attached:
    """An approver, for every request or only for one scope's."""

    approver: Approver
    scope_key: str | None

    def hears(self, request: Request) -> bool:
        """Return whether this approver is asked about a request."""
        return self.scope_key in (None, request.scope_key)
