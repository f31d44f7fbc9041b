"""The small /etc of a sandbox: what is written for it, and what little of the host's it shows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.spec.spec import User

HOSTNAME = "crabpot"

# World-readable certificates, wherever a distribution keeps them. Never the folder above: /etc/ssl/private.
AUTHORITIES = (
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates/extracted",
)
ALTERNATIVES = "/etc/alternatives"
OS_RELEASE = "/etc/os-release"
LINKER_CACHE = "/etc/ld.so.cache"
LOCALTIME = "/etc/localtime"
RESOLVER = "/etc/resolv.conf"
SSH_CONFIG = "/etc/ssh/ssh_config"


def ssh_config(interpreter: str, runner: str) -> bytes:
    """Return a configuration that sends ssh through the sandbox's proxy; the user's own can override it."""
    return _lines("Host *", f"    ProxyCommand {interpreter} -I -S {runner}/upcalls/connect.py %h %p")


def written(user: User, *, resolves: bool, home: str = hardening.WORKSPACE) -> Mapping[str, bytes]:
    """Return the files that are Crabpot's own, by path inside.

    Without `resolves` no name is ever sent to a server.
    """
    hosts = "hosts: files dns" if resolves else "hosts: files"
    return {
        "/etc/passwd": _lines(
            # First, so that it names the uid even if that is nobody's.
            f"{hardening.USER}:x:{user.uid}:{user.gid}:{hardening.USER}:{home}:/bin/sh",
            "root:x:0:0:root:/nonexistent:/usr/sbin/nologin",
            f"nobody:x:{hardening.NOBODY}:{hardening.NOBODY}:nobody:/nonexistent:/usr/sbin/nologin",
        ),
        "/etc/group": _lines(
            f"{hardening.USER}:x:{user.gid}:",
            "root:x:0:",
            f"nogroup:x:{hardening.NOBODY}:",
        ),
        "/etc/hosts": _lines(f"127.0.0.1 localhost {HOSTNAME}", "::1 localhost ip6-localhost ip6-loopback"),
        "/etc/nsswitch.conf": _lines("passwd: files", "group: files", hosts, "services: files", "protocols: files"),
    }


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
