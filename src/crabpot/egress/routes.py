"""Find out which addresses are this machine's own, by asking the kernel that would dial them."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabpot.egress.destinations import Address

# linux/rtnetlink.h: a query for one route, and the types of answer.
_GET_ROUTE, _NEW_ROUTE, _ERROR, _REQUEST = 26, 24, 2, 1
_DESTINATION = 1
_UNICAST = 1
_HEADER, _ROUTE = struct.Struct("=IHHII"), struct.Struct("=BBBBBBBBI")


def is_own(address: Address) -> bool:
    """Return whether a connection to this address stays on this machine or is a broadcast; OSError if unknown.

    Asked for each address, since interfaces come and go; of the kernel's routes rather than a list of interfaces,
    since an address can be the machine's without being on any of them.
    """
    raw = address.packed
    attribute = struct.pack("=HH", 4 + len(raw), _DESTINATION) + raw
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6  # noqa: PLR2004  bytes of an IPv4 address
    body = _ROUTE.pack(family, 8 * len(raw), 0, 0, 0, 0, 0, 0, 0) + attribute
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asking:
        asking.settimeout(2.0)
        asking.sendto(_HEADER.pack(_HEADER.size + len(body), _GET_ROUTE, _REQUEST, 1, 0) + body, (0, 0))
        answer = asking.recv(65536)
    _, kind, _, _, _ = _HEADER.unpack_from(answer)
    if kind == _ERROR:
        # No route at all: nothing is dialled, so nothing is exposed.
        return False
    if kind != _NEW_ROUTE:
        raise OSError("the kernel did not say where an address leads")
    route_type: int = _ROUTE.unpack_from(answer, _HEADER.size)[7]
    return route_type != _UNICAST
