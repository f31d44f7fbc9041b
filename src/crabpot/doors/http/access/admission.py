"""Check every request first: its principal, its origin, and its limits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.decide.scope import OPERATOR, behind_it
from crabpot.doors.http.access.bodies import MOST_VALUES, Body, TooManyValues
from crabpot.doors.http.access.limits import MOST_JSON, MOST_UPLOAD, TooMany
from crabpot.doors.http.access.refusals import Refusal, bad_request, forbidden
from crabpot.doors.http.access.tokens import TokenError
from crabpot.doors.inflight import Sign
from crabpot.scheduling.fair_loop import turn

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from crabpot.doors.http.access.bodies import Bodies
    from crabpot.doors.http.access.entry import Entry
    from crabpot.doors.http.access.limits import Limits
    from crabpot.doors.http.access.principals import Principal
    from crabpot.doors.http.certificate import Names

_SESSIONS = b"/v1/sessions/"
# No token can have this name.
_ANYBODY = "<anybody>"
_JSON = "application/json"
_ONCE = frozenset(
    (
        "host origin authorization content-length content-type x-api-key x-access-token e2b-traffic-access-token"
        " e2b-sandbox-id"
    ).split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Admits a request to the application, or refuses it.

    `entry` is what differs between doors. `strangers` limits all requests without a valid token together: guessing must
    be slow. `hosts` are the names of the listener; None means the Unix socket, where the kernel says who
    connects and no browser comes.
    """

    app: ASGIApp
    entry: Entry
    limits: Limits
    bodies: Bodies
    strangers: Limits
    hosts: Names | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return
        try:
            headers = _headers(scope)
            self._check_origin(headers)
            if scope["path"] in self.entry.open_paths:
                # One user of the machine cannot lock another out of the page.
                self.limits.spend(f"{_ANYBODY} {scope['state']['connection'].peer}")
                await self.app(scope, receive, send)
                return
            principal = self._principal(scope, headers)
            connection, whose = scope["state"]["connection"], OPERATOR if principal.operates else principal.name
            scope["state"]["connections"].belongs(connection, principal.name)
            connection.principal = whose
            self.limits.spend(principal.name)
            with self.limits.running(principal.name), behind_it(whose):
                await turn()
                await self._pass(scope, receive, send, principal, headers)
        except Refusal as refusal:
            await self.entry.refused(refusal, scope)(scope, receive, send)
        except TokenError as error:
            await self.entry.refused(Refusal(500, "internal", str(error)), scope)(scope, receive, send)
        except TooMany as error:
            await self.entry.refused(_slower(error), scope)(scope, receive, send)

    async def _pass(
        self, scope: Scope, receive: Receive, send: Send, principal: Principal, headers: dict[str, str]
    ) -> None:
        uploads = self.entry.uploads(scope)
        most = MOST_UPLOAD if uploads else MOST_JSON
        if not headers.get("content-length", "0").isdigit() or int(headers.get("content-length", "0")) > most:
            raise _too_large(most)
        gone = scope["state"]["connection"].gone = Sign()
        # An upload is passed on as it comes, and nothing of it is parsed.
        is_json = headers.get("content-type", _JSON).partition(";")[0].strip().lower() == _JSON
        body = None if uploads else Body(self.bodies, principal.name, is_json=is_json)
        seen, whole = 0, False
        loop = asyncio.get_running_loop()
        by = loop.time() + self.limits.request_s

        async def counted() -> Message:
            nonlocal seen, whole
            if body is not None and not whole:
                await body.turn()
            # An upload may take long as a whole; once the body is complete, this only waits for a disconnect.
            until = None if whole else loop.time() + self.limits.request_s if uploads else by
            try:
                if scope["state"]["connection"].has_all:
                    message = await receive()
                else:
                    async with asyncio.timeout_at(until):
                        message = await receive()
            except TimeoutError:
                raise _too_slow(self.limits.request_s) from None
            whole = not message.get("more_body", False)
            if message["type"] == "http.disconnect":
                gone.set()
            data = message.get("body", b"")
            seen += len(data)
            if seen > most:
                raise _too_large(most)
            if body is not None:
                _take(body, data)
            return message

        state = {**scope.get("state", {}), "principal": principal, "gone": gone, "headers": headers}
        try:
            await self.app({**scope, "path": _path(scope), "state": state}, counted, send)
        finally:
            if body is not None:
                body.end()

    def _check_origin(self, headers: dict[str, str]) -> None:
        """Refuse pages of other sites: DNS rebinding gives them our address, but neither our name nor our origin."""
        origin = headers.get("origin")
        if self.hosts is None:
            if origin is not None:
                raise forbidden("web pages may not use the Unix socket")
            return
        if not self.hosts.takes(headers.get("host")):
            raise Refusal(421, "wrong_host", f"wrong Host; this is {self.hosts.shown}")
        if origin is not None and not self.hosts.is_origin(origin):
            raise forbidden("requests from other sites' pages are refused")

    def _principal(self, scope: Scope, headers: dict[str, str]) -> Principal:
        found = self.entry.principal(scope, headers)
        if found is None:
            self.strangers.spend(_ANYBODY)
            raise self.entry.stranger(scope)
        return found


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers; those that decisions depend on may appear only once."""
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        if name in _ONCE and name in found:
            raise bad_request(f"duplicate header {name}")
        found[name] = raw_value.decode("latin-1")
    return found


def _too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"the body exceeds {most} bytes")


def _slower(error: TooMany) -> Refusal:
    return Refusal(429, "too_many", str(error), retry_after=str(max(1, round(error.after_s))))


def _take(body: Body, data: bytes) -> None:
    try:
        body.take(data)
    except TooMany as error:
        raise _slower(error) from None
    except TooManyValues:
        raise Refusal(413, "too_large", f"the body has more than {MOST_VALUES} values") from None


def _too_slow(request_s: float) -> Refusal:
    return Refusal(408, "timeout", f"the body did not arrive within {request_s:g} s", connection="close")


def _path(scope: Scope) -> str:
    """Return the path for routing. A session's stays encoded: a key with a slash is still one segment.

    It is decoded where it is read (`requests`), as bytes that need not be UTF-8.
    """
    raw: Any = scope.get("raw_path")
    if isinstance(raw, bytes) and raw.startswith(_SESSIONS):
        return raw.decode("latin-1")
    return str(scope["path"])
