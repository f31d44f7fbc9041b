"""How a door of HTTP knows who comes, and how it says no: what differs between doors that share an admission."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from crabpot.doors.http.access.principals import SAME_USER
from crabpot.doors.http.access.refusals import Refusal
from crabpot.doors.http.routes import dashboard

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

    from crabpot.doors.http.access.principals import Principal
    from crabpot.doors.http.access.tokens import Tokens

_SCHEME = "bearer "
_OPEN = frozenset({"/health", *dashboard.PATHS})


class Entry(Protocol):
    """What an admission asks of its door."""

    @property
    def open_paths(self) -> frozenset[str]:
        """The paths that need no token."""

    def principal(self, scope: Scope, headers: dict[str, str]) -> Principal | None:
        """Return whose a request is, or None."""

    def stranger(self, scope: Scope) -> Refusal:
        """Return the refusal of a request that is nobody's."""

    def uploads(self, scope: Scope) -> bool:
        """Return whether the body is passed on as it comes, however long it is."""

    def refused(self, refusal: Refusal, scope: Scope) -> Response:
        """Return a refusal in the door's own format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerEntry:
    """Knows a principal by its token; on the Unix socket, the kernel's word for the gateway's own user will do."""

    tokens: Tokens
    same_user: bool

    @property
    def open_paths(self) -> frozenset[str]:
        """Health checks need no token, nor does the page, which contains no data by itself."""
        return _OPEN

    def principal(self, _scope: Scope, headers: dict[str, str]) -> Principal | None:
        """Return the principal of the token."""
        given = headers.get("authorization")
        if given is None and self.same_user:
            return SAME_USER
        if given is None or not given.lower().startswith(_SCHEME):
            return None
        return self.tokens.find(given[len(_SCHEME) :].strip())

    def stranger(self, _scope: Scope) -> Refusal:
        """Ask for a token."""
        message = "a token is required: Authorization: Bearer …; see crabpot tokens"
        return Refusal(401, "unauthorized", message, www_authenticate="Bearer")

    def uploads(self, scope: Scope) -> bool:
        """Return whether it is a file."""
        return bool(scope["method"] == "PUT")

    def refused(self, refusal: Refusal, _scope: Scope) -> Response:
        """Return the refusal as it is."""
        return refusal.response()
