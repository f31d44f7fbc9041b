"""Judge where a remote is: ssh, https, or a folder of this machine that no sandbox may write."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HELPER = re.compile(r"([A-Za-z0-9][A-Za-z0-9+.-]*)::")
# host:path, [host]:path and [host:port]:path, each with or without user@; a slash before the colon makes it a path.
_SCP = re.compile(r"(?:[^/@:]+@)?(?:\[([^\]/]+)\]|([^/:\[]+)):(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"(?:([^@/]*)@)?(\[[^\]/]+\]|[^/:@]*)(?::([0-9]*))?(/.*)?", re.DOTALL)
_LONGEST = 2048
_THIS_MACHINE = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
# What git makes of a path before it takes the repository there.
_FORMS = ("", "/.git", ".git", ".git/.git")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A remote that may be spoken to."""

    url: str
    path: str | None = None
    """The folder, where it is one of this machine."""
    marks: tuple[str, ...] = ()


def judge(url: str, *, folder: str, written: Sequence[str]) -> Remote:
    """Judge a URL. A relative path is the host's `folder` and what follows; `written` is what sandboxes may write."""
    if not url or len(url) > _LONGEST or not url.isprintable() or any(mark.isspace() for mark in url):
        raise HostRefused("denied", f"{url[:80]!r} is no URL that git is given on the host")
    if url.startswith("-"):
        raise HostRefused("denied", f"{url} reads as an option, not as a remote")
    helper, scheme = _HELPER.match(url), _SCHEME.fullmatch(url)
    if helper is not None:
        raise _refused_kind(url, f"{helper[1]}::")
    if scheme is not None:
        return _with_scheme(url, scheme[1], scheme[2], folder, written)
    scp = _SCP.fullmatch(url)
    if scp is not None:
        return _at_host(url, scp[2] or _without_port(scp[1]), scp[3])
    return _at_path(url, os.path.join(folder, url), written)


def _with_scheme(url: str, scheme: str, rest: str, folder: str, written: Sequence[str]) -> Remote:
    if scheme == "file":
        if not rest.startswith("/"):
            raise HostRefused("denied", f"{url} names no absolute path; write file:///…")
        return _at_path(url, os.path.join(folder, unquote(rest)), written)
    if scheme not in ("ssh", "https"):
        raise _refused_kind(url, f"{scheme}://")
    parts = _AUTHORITY.fullmatch(rest)
    if parts is None or not parts[2]:
        raise HostRefused("denied", f"{url} names no host")
    if (parts[1] or "").startswith("-"):
        raise HostRefused("denied", f"{url}: a user that begins with - reads as an option")
    return _at_host(url, unquote(parts[2]).strip("[]"), unquote(parts[4] or "/"))


def _without_port(bracketed: str) -> str:
    return bracketed.partition(":")[0] if bracketed.count(":") == 1 else bracketed


def _at_host(url: str, host: str, path: str) -> Remote:
    # CVE-2017-1000117: ssh and the git at the other end would read these as options.
    if host.startswith("-") or path.startswith(("-", "/-")) or url.partition("@")[0].startswith("-"):
        raise HostRefused("denied", f"{url}: a host or path that begins with - reads as an option")
    marks = (f"{host} is this machine",) if is_this_machine(host) else ()
    return Remote(url=url, marks=marks)


def _at_path(url: str, path: str, written: Sequence[str]) -> Remote:
    for form in _FORMS:
        resolved = os.path.realpath(f"{path}{form}")
        for tree in map(os.path.realpath, written):
            if os.path.commonpath([tree, resolved]) in (tree, resolved):
                message = (
                    f"{resolved} as a remote: a sandbox may write {tree}, and the hooks there would run on the host"
                )
                raise HostRefused("denied", f"{message}; use a repository that no sandbox writes")
    resolved = os.path.realpath(path)
    if not os.path.isdir(resolved):
        raise HostRefused("not_found", f"{resolved} is no folder of the host, so that it cannot be the remote {url}")
    return Remote(url=resolved, path=resolved, marks=(f"{resolved} is a folder of this machine",))


def is_this_machine(host: str) -> bool:
    """Tell whether a host's name or address, in any spelling, is known to mean the machine that this runs on."""
    name = host.lower().rstrip(".")
    if name in _THIS_MACHINE or name.endswith(".localhost"):
        return True
    own = socket.gethostname().lower()
    if name in (own, own.partition(".")[0]):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        try:
            # 127.1, 2130706433 and 0x7f.1, which resolvers take.
            address = ipaddress.ip_address(socket.inet_aton(name))
        except OSError:
            return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    found = mapped or address
    return found.is_loopback or found.is_unspecified


def _refused_kind(url: str, kind: str) -> HostRefused:
    return HostRefused("denied", f"{url}: {kind} is not spoken for a sandbox; use ssh:// (or host:path) or https://")
