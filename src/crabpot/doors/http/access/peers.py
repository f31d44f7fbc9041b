"""Ask the kernel which user is at the other end of a connection over the loopback."""

from __future__ import annotations

import ipaddress
import socket
import struct

# From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST = 4, 20, 1
_HEADER = struct.Struct("=IHHII")
_WANTED = struct.Struct("=BBBxI")
_FOUND = struct.Struct("=4x48xIIIII")
_ANY_STATE, _NO_COOKIE = 0xFFFFFFFF, b"\xff" * 8
_LONGEST = 4096


def uid_of(sock: socket.socket) -> int | None:
    """Return the user whose socket is connected to this one, or None if the kernel does not say."""
    if sock.family == socket.AF_UNIX:
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("=iII"))
        return int(struct.unpack("=iII", credentials)[1])
    try:
        return _lookup(sock.family, sock.getpeername(), sock.getsockname())
    except (OSError, ValueError, struct.error):
        return None


def _lookup(family: int, theirs: tuple[str, int], ours: tuple[str, int]) -> int | None:
    """Look up one socket by both its ends, as `ss` does; /proc/net/tcp is read whole, and other users can flood it."""
    ends = struct.pack("!HH", theirs[1], ours[1]) + _padded(theirs[0]) + _padded(ours[0])
    wanted = _WANTED.pack(family, socket.IPPROTO_TCP, 0, _ANY_STATE) + ends + struct.pack("=I", 0) + _NO_COOKIE
    header = _HEADER.pack(_HEADER.size + len(wanted), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.setblocking(False)
        kernel.sendto(header + wanted, (0, 0))
        answer = kernel.recv(_LONGEST)
    _, kind, *_ = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:
        return None
    *_, uid, inode = _FOUND.unpack_from(answer, _HEADER.size)
    # A socket that its owner has closed belongs to nobody, and the kernel reports uid 0: that is not root.
    return int(uid) if inode else None


def _padded(address: str) -> bytes:
    return ipaddress.ip_address(address).packed.ljust(16, b"\0")
