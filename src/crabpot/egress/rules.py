"""Decide on a connection by the configuration: which rule lists it, and which addresses a name may have. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from crabpot.egress.addresses import beneath, special
from crabpot.model import Verdict
from crabpot.spec.network import canonical_place, describe, split_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.egress.addresses import Network
    from crabpot.egress.destinations import Address, Destination
    from crabpot.settings import AgentSettings

_ALLOW = "sandbox.network.allow"
_RAW = "sandbox.network.raw"
_NETWORK = "sandbox.network"


class Reach(Enum):
    """The decision on a connection before its addresses are known."""

    ALLOWED = "allowed"
    ASKS = "asks"
    REFUSED = "refused"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One entry of an allow list. `network` is set for an address or range; else it is a name or `*.name`."""

    text: str
    host: str
    ports: tuple[int, ...]
    source: str
    network: Network | None
    raw: bool = False

    def names(self, destination: Destination) -> bool:
        """Return whether the rule lists a host, whatever the port."""
        if destination.address is not None:
            return self.network is not None and destination.address in self.network
        if self.network is not None:
            return False
        if self.host.startswith("*."):
            # With the dot, so that neither example.org itself nor evilexample.org is covered.
            return destination.host.endswith(self.host[1:]) and len(destination.host) >= len(self.host)
        return destination.host == self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRules:
    """The rules for what one agent's sandboxes may reach."""

    kind: str
    listed: tuple[Rule, ...]
    asks: bool
    source: str

    @property
    def everything(self) -> bool:
        """Whether any public address may be reached."""
        return self.kind == "internet"

    def decide(self, destination: Destination) -> Verdict[Reach]:
        """Decide whether a destination is listed. Its name is not resolved yet: a query is a message to its owner."""
        if self.kind in ("host", "bridge", "named"):
            return self._verdict(Reach.UNCHECKED, f'network "{self.kind}" is not checked by Crabpot', self.source)
        if self.kind == "none":
            return self._verdict(Reach.REFUSED, "the sandbox has no network", self.source)
        if self.everything:
            return self._public(destination)
        rule = next((rule for rule in self.listed if self._lists(rule, destination)), None)
        if rule is not None:
            return self._verdict(Reach.ALLOWED, f'listed as "{rule.text}"', rule.source)
        why = self._near_miss(destination)
        # Nobody is asked about an address that is not public: someone in a hurry might agree.
        if self.asks and (destination.address is None or special(destination.address) is None):
            return self._verdict(Reach.ASKS, f"{why}, so a person is asked", self.source)
        return self._verdict(Reach.REFUSED, why, self.source)

    def carries_unread(self, destination: Destination) -> bool:
        """Return whether traffic to a destination passes unchecked, whatever host it may be for."""
        return any(rule.raw and self._lists(rule, destination) for rule in self.listed)

    def _public(self, destination: Destination) -> Verdict[Reach]:
        found = None if destination.address is None else special(destination.address)
        if found is not None:
            why = f'{destination.host} is {found.what}, and network "internet" is the public addresses alone'
            return self._verdict(Reach.REFUSED, why, self.source)
        return self._verdict(Reach.ALLOWED, 'network "internet"', self.source)

    def _lists(self, rule: Rule, destination: Destination) -> bool:
        return destination.port in rule.ports and rule.names(destination)

    def _near_miss(self, destination: Destination) -> str:
        """Return why no rule matches, with the one that nearly does."""
        for rule in self.listed:
            if rule.names(destination):
                ports = " and ".join(map(str, rule.ports))
                return f'"{rule.text}" lists {destination.host} for port {ports}, not for {destination.port}'
            if rule.host == f"*.{destination.host}":
                return f'"{rule.text}" is for names below {destination.host}, not for that name itself'
        return f"{destination} is not listed" if self.listed else "network.allow is empty, so nothing can be reached"

    def _verdict(self, reach: Reach, because: str, source: str) -> Verdict[Reach]:
        return Verdict(answer=reach, because=because, source=source)

    def forbid(self, address: Address, port: int, is_own: Callable[[Address], bool]) -> str | None:
        """Return why an address must not be dialled, whichever name led to it, or None.

        A private address must be listed itself: a name's owner decides where the name leads.
        """
        judged = beneath(address)
        opening = [rule.network for rule in self.listed if rule.network is not None and port in rule.ports]
        opening = [network for network in opening if judged in network]
        found = special(address)
        if found is not None:
            # A range that merely contains it (0.0.0.0/1) was not meant to list it.
            if found.never or not any(_within(network, found.network) for network in opening):
                return f"{address} is {found.what}"
            if judged.is_loopback:
                return None
        if is_own(judged) and not any(network.num_addresses == 1 for network in opening):
            return f"{address} is an address of this machine itself"
        return None


def rules(agent: AgentSettings) -> EgressRules:
    """Return the rules of an agent's network settings, which were checked on loading."""
    chosen = agent.sandbox.network
    listed = tuple(_rule(text, agent.source(f"{_ALLOW}[{index}]")) for index, text in enumerate(chosen.allow))
    unread = (_rule(text, agent.source(f"{_RAW}[{index}]")) for index, text in enumerate(chosen.raw))
    source = agent.source(_ALLOW if chosen.name == "allow" and chosen.allow else _NETWORK)
    every = (*listed, *(replace(rule, raw=True) for rule in unread))
    return EgressRules(kind=describe(chosen).kind, listed=every, asks=chosen.ask, source=source)


def rule_for(text: str, source: str) -> Rule:
    """Return the rule for a destination that was approved while the gateway runs."""
    return _rule(text, source)


def _rule(text: str, source: str) -> Rule:
    host, ports = split_place(canonical_place(text))
    bare = host[1:-1] if host.startswith("[") else host
    try:
        network = ipaddress.ip_network(bare)
    except ValueError:
        return Rule(text=text, host=host, ports=ports, source=source, network=None)
    return Rule(text=text, host=bare, ports=ports, source=source, network=network)


def _within(inner: Network, outer: Network) -> bool:
    if isinstance(inner, ipaddress.IPv4Network):
        return isinstance(outer, ipaddress.IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, ipaddress.IPv6Network) and inner.subnet_of(outer)
