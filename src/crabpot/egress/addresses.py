"""Addresses that are not public: what they belong to, and which of them no rule can open."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.egress.destinations import Address, embedded

if TYPE_CHECKING:
    from typing import TypeAlias

    Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A range of addresses that are not public. `never`: dialling one reaches something other than what is written."""

    network: Network
    what: str
    never: bool = False


def _range(network: str, what: str, *, never: bool = False) -> Range:
    return Range(network=ipaddress.ip_network(network), what=what, never=never)


# IANA's special-purpose registries, and where clouds serve their machines' secrets. The first match counts.
_FOUR = (
    _range("0.0.0.0/8", "not a machine's address: the kernel takes it for this machine", never=True),
    _range("10.0.0.0/8", "private: a machine on your network"),
    _range("100.64.0.0/10", "shared address space: a provider's or a VPN's inner network"),
    _range("127.0.0.0/8", "the loopback: services of the host itself"),
    _range("169.254.0.0/16", "link-local: where clouds answer with a machine's credentials"),
    _range("172.16.0.0/12", "private: a machine on your network"),
    _range("192.0.0.0/24", "kept for protocols, and a cloud's metadata"),
    _range("192.0.2.0/24", "for documentation"),
    _range("192.88.99.0/24", "a relay into IPv6", never=True),
    _range("192.168.0.0/16", "private: a machine on your network"),
    _range("198.18.0.0/15", "for benchmarks of networks"),
    _range("198.51.100.0/24", "for documentation"),
    _range("203.0.113.0/24", "for documentation"),
    _range("168.63.129.16/32", "a cloud's own service for its machines"),
    _range("224.0.0.0/4", "multicast", never=True),
    _range("240.0.0.0/4", "reserved", never=True),
)
_SIX = (
    _range("::/128", "not a machine's address: the kernel takes it for this machine", never=True),
    _range("::1/128", "the loopback: services of the host itself"),
    _range("::/96", "an IPv4 address in disguise", never=True),
    _range("64:ff9b:1::/48", "an IPv4 address in disguise", never=True),
    _range("fc00::/7", "private: a machine on your network, or a cloud's metadata"),
    _range("fe80::/10", "link-local"),
    _range("fec0::/10", "private: a machine on your network"),
    _range("ff00::/8", "multicast", never=True),
    _range("2001::/32", "an IPv4 address in disguise", never=True),
    _range("2001::/23", "kept for protocols"),
    _range("2001:db8::/32", "for documentation"),
    _range("2002::/16", "an IPv4 address in disguise", never=True),
    _range("3fff::/20", "for documentation"),
)
_GLOBAL_SIX = ipaddress.IPv6Network("2000::/3")
_ELSEWHERE = _range("::/0", "outside of what IPv6 gives to machines")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")


def special(address: Address) -> Range | None:
    """Return the special range that an address belongs to, or None if the address is public."""
    judged = beneath(address)
    if isinstance(judged, ipaddress.IPv4Address):
        return next((one for one in _FOUR if judged in one.network), None)
    found = next((one for one in _SIX if judged in one.network), None)
    return found if found is not None or judged in _GLOBAL_SIX else _ELSEWHERE


def beneath(address: Address) -> Address:
    """Return the address to judge: behind NAT64, the IPv4 address inside."""
    address = embedded(address)
    if isinstance(address, ipaddress.IPv6Address) and address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
