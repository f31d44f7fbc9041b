"""Servers that stand for the world while keys are attacked: names and an authority of their own, on the loopback.

The gateway's trust is no setting. One sandbox, opened here for one attack, gets a way out that ends at these servers.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from functools import partial
from typing import TYPE_CHECKING

from crabpot.egress.authority import Authority
from crabpot.egress.proxy import serve
from crabpot.egress.reaching import Egress, EgressContext
from crabpot.egress.resolving import Unresolved
from crabpot.egress.secrets import Secrets
from crabpot.sandboxes.answering import Answering
from crabpot.sandboxes.live import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabpot.egress.destinations import Address
    from crabpot.proof.verify.target import Target
    from crabpot.sandboxes.live import Live


class World:
    """Names that lead to the loopback, and the one authority that vouches for them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._authority = Authority(names, "Crabpot's trial of a world")

    async def resolve(self, name: str) -> tuple[Address, ...]:
        """Return the loopback for every name of this world."""
        if name not in self._authority.hosts:
            raise Unresolved(f"{name}: unknown")
        return (ipaddress.IPv4Address("127.0.0.1"),)

    def trust(self) -> ssl.SSLContext:
        """Return what the gateway's connections are verified with: as always, but by this world's authority alone."""
        return ssl.create_default_context(cadata=self._authority.certificate.decode())

    def answers_for(self, live: Live) -> Authority | None:
        """Return who answers for hosts whose TLS ends at the gateway."""
        return live.authority

    def shows(self, name: str) -> ssl.SSLContext:
        """Return what the server of a name proves itself with, whatever name it was asked for."""
        made = self._authority.context(name)
        made.sni_callback = None
        return made

    async def opens(self, target: Target) -> None:
        """Open a session's sandbox as ever, and have its connections end in this world."""
        execution = target.gateway.execution
        secrets = Secrets(os.environ, execution.around.home)
        context = EgressContext(resolver=self, secrets=secrets, record=target.gateway.audit.record, trust=self.trust)

        async def open_(wanted: Wanted) -> Live:
            live = await execution.opener.open(wanted)
            assert live.scope is not None, "the opener attends to what it opens"
            way = partial(serve, Egress(live.scope, context, self.answers_for(live)))
            live.wire.upcalls.answers = Answering().on_behalf_of(live.scope, {"connect": way})
            return live

        await execution.fleet.acquire(Wanted.of(target.spec, target.agent), open_)
