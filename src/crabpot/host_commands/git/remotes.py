"""Judge where a remote is: ssh, https, or a folder of this machine that is no secret and that no sandbox may write.

An ambiguous URL is refused, not guessed: git, ssh and curl each have their own parser, and the remote that was shown
must be the one that is contacted.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from crabpot.errors import HostRefused
from crabpot.host_commands.git.names import shown
from crabpot.spec.binds import is_under, normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HELPER = re.compile(r"([A-Za-z0-9][A-Za-z0-9+.-]*)::")
# Without %, ?, #, @ and \, which git, ssh and curl each treat differently.
_WORD = r"[A-Za-z0-9._~+-]"
_USER, _HOST, _SIX, _PORT = f"{_WORD}+", r"[A-Za-z0-9._-]+", r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", r"[0-9]{1,5}"
# host:path, [host]:path and [host:port]:path, each with or without user@.
_SCP = re.compile(
    rf"(?:(?P<user>{_USER})@)?(?:(?P<name>{_HOST})|\[(?P<boxed>{_HOST})(?::{_PORT})?\]|\[(?P<six>{_SIX})\]):(?P<path>.*)",
    re.DOTALL,
)
_AUTHORITY = re.compile(
    rf"(?:(?P<user>{_USER})(?P<password>:{_WORD}*)?@)?(?:(?P<name>{_HOST})|\[(?P<six>{_SIX})\])(?::{_PORT})?(?P<path>/.*)?",
    re.DOTALL,
)
# Git looks for it in the whole URL, its path included, and takes all before it and the bracket for user and host.
_BRACKET = "@["
_LONGEST = 2048
_THIS_MACHINE = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
# The suffixes that git tries on a path to find the repository.
_FORMS = ("", "/.git", ".git", ".git/.git")
# Judged as written, too: where a link in /proc leads would reveal something about the host.
_SYSTEM = ("/proc", "/sys", "/dev", "/run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A remote that may be contacted."""

    url: str
    path: str | None = None
    """The folder, if the remote is one of this machine."""
    marks: tuple[str, ...] = ()


def judge(url: str, *, folder: str, written: Sequence[str], secrets: Sequence[str]) -> Remote:
    """Judge a URL; a relative path starts at the host's `folder`.

    `written` is what sandboxes may write, `secrets` what no command of an agent may see.
    """
    if not url or len(url) > _LONGEST or not url.isprintable() or any(mark.isspace() for mark in url):
        raise HostRefused("denied", f"{url[:80]!r} is not a URL for git on the host")
    if url.startswith("-"):
        raise HostRefused("denied", f"{url} reads as an option, not as a remote")
    helper, scheme = _HELPER.match(url), _SCHEME.fullmatch(url)
    if helper is not None:
        raise _refused_kind(url, f"{helper[1]}::")
    if scheme is not None and scheme[1] != "file":
        return _with_scheme(url, scheme[1], scheme[2])
    # As in git: a slash before the first colon makes it a path.
    if scheme is None and ":" in url.partition("/")[0]:
        return _at_host(url, _SCP.fullmatch(url))
    path = url if scheme is None else unquote(scheme[2])
    if scheme is not None and not path.startswith("/"):
        raise HostRefused("denied", f"{url} names no absolute path; write file:///…")
    return _at_path(url, os.path.join(folder, path), written, secrets)


def _with_scheme(url: str, scheme: str, rest: str) -> Remote:
    if scheme not in ("ssh", "https"):
        raise _refused_kind(url, f"{scheme}://")
    parts = _AUTHORITY.fullmatch(rest)
    if parts is not None and parts["password"] and scheme == "ssh":
        raise HostRefused("denied", f"{url}: ssh takes no password from a URL")
    return _at_host(url, parts)


def _at_host(url: str, parts: re.Match[str] | None) -> Remote:
    if parts is None:
        raise HostRefused(
            "denied",
            f"{url}: where it leads is not certain; a host is letters, digits, dots and dashes or an address "
            "in brackets, a user the same with _ ~ +, and neither contains %, ?, #, or another @",
        )
    found = parts.groupdict()
    user, path = found["user"] or "", unquote(found["path"] or "/")
    host = found["name"] or found["six"] or found["boxed"]
    # CVE-2017-1000117: ssh and the git at the other end would read these as options.
    if user.startswith("-") or host.startswith("-") or path.startswith(("-", "/-")):
        raise HostRefused("denied", f"{url}: a user, host or path that begins with - reads as an option")
    if not path.isprintable() or _BRACKET in path:
        raise HostRefused("denied", f"{url}: its path contains {_BRACKET} or unprintable characters")
    marks = [f"{host} is this machine"] if is_this_machine(host) else []
    if "." in user:
        marks.append(f"the host is {host}; {user} is a user there")
    return Remote(url=url, marks=tuple(marks))


def _at_path(url: str, path: str, written: Sequence[str], secrets: Sequence[str]) -> Remote:
    forms = [f"{path}{form}" for form in _FORMS]
    trees = (*_SYSTEM, *secrets, *written)
    try:
        # As written first: nothing is looked up in a refused place.
        if not _touches(map(normal, forms), map(normal, trees)):
            closed = [form for tree in trees for form in (normal(tree), os.path.realpath(tree))]
            resolved = os.path.realpath(path)
            refused = _BRACKET in resolved or _touches(map(os.path.realpath, forms), closed) or _leads_on(forms)
            if not refused and os.path.isdir(resolved):
                return Remote(url=resolved, path=resolved, marks=(f"{shown(resolved)} is a folder of this machine",))
    except (OSError, ValueError):
        pass
    # One message for all cases: the reason would tell an agent what the host has, before anybody is asked.
    raise HostRefused(
        "denied",
        f"{url} as a remote: either it is no folder of the host, or a sandbox may write it, or its .git leads "
        "elsewhere, or it touches a place of the system, of credentials or of Crabpot's own; use a repository "
        "that no sandbox writes",
    )


def _leads_on(forms: Iterable[str]) -> bool:
    """Return whether git would find only a pointer there, as in a worktree: the repository could be an agent's."""
    return any(os.path.isfile(form) or os.path.lexists(f"{form}/commondir") for form in forms)


def _touches(paths: Iterable[str], trees: Iterable[str]) -> bool:
    """Return whether a path is, is in, or contains one of the trees."""
    against = list(trees)
    return any(path == tree or is_under(path, tree) or is_under(tree, path) for path in paths for tree in against)


def is_this_machine(host: str, *, hosts: str = "/etc/hosts", resolver: str = "/etc/resolv.conf") -> bool:
    """Return whether a host's name or address, in any spelling, is known to be this machine.

    By files and the kernel alone: no name is resolved before a person agrees.
    """
    name = host.lower().rstrip(".")
    if name in _THIS_MACHINE or name.endswith(".localhost"):
        return True
    own = socket.gethostname().lower()
    short = own.partition(".")[0]
    if name in (own, short) or name in {f"{short}.{domain}" for domain in _domains(resolver)}:
        return True
    address = _address(name)
    return any(map(_is_own, _listed(name, hosts) if address is None else [address]))


def _domains(resolver: str) -> Iterator[str]:
    for words in _words(resolver):
        if words[0] in ("search", "domain"):
            yield from (word.lower().rstrip(".") for word in words[1:])


def _listed(name: str, hosts: str) -> Iterator[Address]:
    for words in _words(hosts):
        if name in [word.lower().rstrip(".") for word in words[1:]] and (address := _address(words[0])) is not None:
            yield address


def _words(file: str) -> Iterator[list[str]]:
    with suppress(OSError), open(file, encoding="utf-8", errors="replace") as lines:
        yield from filter(None, (line.partition("#")[0].split() for line in lines))


def _address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        # 127.1, 2130706433 and 0x7f.1, which resolvers accept.
        with suppress(OSError, ValueError):
            return ipaddress.ip_address(socket.inet_aton(text))
        return None


def _is_own(address: Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    found = mapped or address
    if found.is_loopback or found.is_unspecified:
        return True
    family = socket.AF_INET if found.version == 4 else socket.AF_INET6  # noqa: PLR2004  IPv4
    # Only the kernel knows: bind() fails for an address that is not this machine's. Nothing is sent.
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((str(found), 0))
        return True
    return False


def _refused_kind(url: str, kind: str) -> HostRefused:
    return HostRefused("denied", f"{url}: {kind} is not supported; use ssh:// (or host:path) or https://")
