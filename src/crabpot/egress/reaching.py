"""The only path from a sandbox to the network: decide, ask, resolve, check every address, dial, in this order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from crabpot.audit.records import of_connection
from crabpot.egress.addresses import special
from crabpot.egress.approval import Questions, write_down
from crabpot.egress.dialling import Unreachable, dial
from crabpot.egress.outside import Encrypted, NotVerified, Plain, encrypt, system_trust
from crabpot.egress.resolving import Unresolved
from crabpot.egress.routes import is_own
from crabpot.egress.rules import Reach, rule_for, rules
from crabpot.egress.secrets import SecretUnavailable
from crabpot.spec.network import name_of, ports_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from crabpot.approvals.requests import Answer
    from crabpot.decide.scope import Scope
    from crabpot.egress.approval import Asker
    from crabpot.egress.authority import Authority
    from crabpot.egress.destinations import Address, Destination
    from crabpot.egress.outside import Outside
    from crabpot.egress.resolving import Resolver
    from crabpot.egress.rules import EgressRules
    from crabpot.egress.secrets import Secrets
    from crabpot.settings import Inject

    Gone = Callable[[], Awaitable[None]]
    Added = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressContext:
    """What all scopes of one gateway share to make connections."""

    resolver: Resolver
    secrets: Secrets
    record: Callable[[dict[str, Any]], object]
    desk: Asker | None = None
    # The file that an answer may be written into: a gateway may get another one while it runs.
    config: Callable[[], str | None] = lambda: None
    is_own: Callable[[Address], bool] = is_own
    trust: Callable[[], ssl.SSLContext] = system_trust
    # Longer than any model thinks before its first word; a stream of events has a sign of life in between.
    silent_s: float = 900.0


class Refused(Exception):
    """A refused connection; the message says why, by which setting, and what to do."""


class Failed(Exception):
    """An allowed connection that could not be made."""


class Reached(NamedTuple):
    """A connection that was made."""

    server: Outside
    address: Address
    rules: EgressRules
    raw: bool


class Egress:
    """The network access of one scope."""

    def __init__(self, scope: Scope, context: EgressContext, authority: Authority | None = None) -> None:
        self._scope = scope
        self.authority = authority
        self._context = context
        self._rules, self._of = rules(scope.agent), scope.agent
        self._questions = None if context.desk is None else Questions(scope, context.desk, context.record)

    @property
    def silent_s(self) -> float:
        """Return how long the server of a request may send nothing."""
        return self._context.silent_s

    def fell_silent(self, destination: Destination) -> str:
        """Record that a server stopped answering a request, and return what to say about it."""
        why = f"it sent nothing for {self.silent_s:g} s"
        self._record(destination, "failed", why)
        return f"the answer of {destination} was given up: {why}"

    async def reach(self, destination: Destination, gone: Gone | None = None) -> Reached:
        """Connect, or raise Refused or Failed; every outcome is recorded.

        `gone` returns once whoever wants the connection has left: a question to a person ends with that.
        """
        if self._of is not self._scope.agent:
            # The gateway has read its configuration again.
            self._rules, self._of = rules(self._scope.agent), self._scope.agent
        rule = self.encrypts(destination)
        dialled = destination if rule is None else replace(destination, port=ports_of(rule)[destination.port])
        try:
            addresses, because = await self._checked(dialled, gone)
            sock, address = await dial(addresses, dialled.port)
        except (Unreachable, Unresolved) as error:
            self._record(dialled, "failed", str(error))
            if isinstance(error, Unresolved):
                # A program shows its proxy's status, a bare 502, and not what the proxy says with it.
                self._scope.hint(f"{dialled} is allowed, but its name leads nowhere: {error}")
            raise Failed(f"{dialled} cannot be reached: {error}") from None
        self._record(dialled, "allowed", because, address=str(address))
        server = Plain(sock)
        encrypted = server if rule is None else await self.encrypt(server, dialled)
        return Reached(encrypted, address, self._rules, rule is None and self._rules.carries_unread(destination))

    def encrypts(self, destination: Destination) -> Inject | None:
        """Return the rule by which the gateway itself speaks TLS for a program inside, or None."""
        return next((rule for _, rule in self._injected(destination) if rule.tls is not None), None)

    def _injected(self, destination: Destination) -> Iterator[tuple[int, Inject]]:
        for index, rule in enumerate(self._scope.agent.sandbox.network.inject):
            if destination.host == name_of(rule) and destination.port in ports_of(rule):
                yield index, rule

    async def encrypt(self, server: Plain, destination: Destination) -> Encrypted:
        """Begin TLS with a server that must prove to be the destination's host, or raise Failed."""
        try:
            return await encrypt(server, destination.host, self._context.trust)
        except NotVerified as error:
            server.close()
            self._record(destination, "failed", str(error))
            raise Failed(f"{destination} was not given anything: {error}") from None
        except BaseException:
            server.close()
            raise

    async def _checked(self, destination: Destination, gone: Gone | None) -> tuple[tuple[Address, ...], str]:
        verdict = self._rules.decide(destination)
        if verdict.answer is Reach.REFUSED:
            self.refuse(destination, f"{verdict.because} ({verdict.source}); {_remedy(destination, self._rules)}")
        because = verdict.because
        if verdict.answer is Reach.ASKS:
            because = await self._ask(destination, verdict.source, gone)
        if destination.address is not None:
            addresses: tuple[Address, ...] = (destination.address,)
        else:
            addresses = await self._context.resolver.resolve(destination.host)
        for address in addresses:
            wrong = await asyncio.to_thread(self._rules.forbid, address, destination.port, self._context.is_own)
            if wrong is not None:
                led = "" if destination.address is not None else f"{destination.host} leads to {address}, and "
                listing = replace(destination, host=str(address), address=address)
                found = special(address)
                fix = "" if found is not None and found.never else f'; if that is meant, list "{listing}" itself'
                self.refuse(destination, f"{led}{wrong} ({verdict.source}){fix}")
        return addresses, because

    async def _ask(self, destination: Destination, source: str, gone: Gone | None) -> str:
        if self._questions is None:
            self.refuse(destination, f"it is not listed ({source}), and no operator is connected to ask")
        answer = await _unless_gone(self._questions.ask(destination, source), gone)
        if answer is None:
            self.refuse(destination, f"whoever asked has gone; it is not listed ({source})")
        if not answer.allowed:
            self.refuse(destination, f"{answer.reason or 'denied'}, by {answer.by}; it is not listed ({source})")
        if answer.grant == "config":
            agent = self._scope.agent.id
            if not any(rule.text == str(destination) for rule in self._rules.listed):
                added = rule_for(str(destination), f"agents.entries.{agent}.sandbox.network.allow")
                self._rules = replace(self._rules, listed=(*self._rules.listed, added))
                await asyncio.to_thread(write_down, self._context.config(), agent, destination)
        return f"allowed by {answer.by}"

    def refuse(self, destination: Destination, why: str) -> NoReturn:
        """Record a refusal, add it as a hint to the calls in progress, and raise it."""
        self._record(destination, "refused", why)
        self._scope.hint(f"the connection to {destination} was refused: {why}")
        raise Refused(f"the connection to {destination} was refused: {why}")

    async def added_headers(self, destination: Destination) -> Added:
        """Return the headers to inject into requests to this host; Failed if a value is unavailable."""
        made = []
        for index, rule in self._injected(destination):
            try:
                value = await self._context.secrets.value(rule.value_from)
            except SecretUnavailable as error:
                where = self._scope.agent.source(f"sandbox.network.inject[{index}]")
                # Only the operator may learn where a secret is; an agent would go and look for it.
                self._record(destination, "failed", f"{rule.header}: {error} ({where})")
                why = "its value is unavailable; the audit log says why"
                raise Failed(f"{rule.header} for {destination}: {why}") from None
            before, after = rule.format.encode("ascii").split(b"{}")
            made.append((rule.header.encode("ascii"), before + value + after))
            self._record(destination, "injected", rule.header)
        return tuple(made)

    def _record(self, destination: Destination, answer: str, because: str, **more: str) -> None:
        scope = self._scope
        more = {"scope": scope.key, "because": because, **more}
        self._context.record(of_connection(scope.session, scope.agent.id, str(destination), answer, **more))


async def _unless_gone(asking: Coroutine[Any, Any, Answer], gone: Gone | None) -> Answer | None:
    """Return the answer, or None if whoever asked leaves before; the question is then withdrawn."""
    if gone is None:
        return await asking
    asked, left = asyncio.ensure_future(asking), asyncio.ensure_future(gone())
    try:
        await asyncio.wait((asked, left), return_when=asyncio.FIRST_COMPLETED)
        return asked.result() if asked.done() else None
    finally:
        asked.cancel()
        left.cancel()
        await asyncio.gather(asked, left, return_exceptions=True)


def _remedy(destination: Destination, found: EgressRules) -> str:
    if found.everything:
        return f'to reach it, list it: network: {{ allow: ["{destination}"] }}'
    return f'to allow it, add "{destination}" to network.allow'
