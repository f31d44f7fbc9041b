"""Hints for a guarded command that failed for lack of access: what it has, and the setting that adds more."""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, NamedTuple

from crabpot.host_commands.guard.view import hides, reaches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.host_commands.guard.view import View
    from crabpot.host_commands.plan import Plan
    from crabpot.wire.in_flight import Sink
    from crabpot.wire.replies import Reply

_LONGEST_READ = 16 * 1024
_MOST_NAMED = 3
_READ_ONLY = re.compile(r"read-only file system|\bEROFS\b", re.IGNORECASE)
_NO_SOCKET = re.compile(r"address family not supported|\bEAFNOSUPPORT\b", re.IGNORECASE)
_REFUSED = re.compile(r"no such file or directory|permission denied|\bENOENT\b|\bEACCES\b", re.IGNORECASE)
_NO_NETWORK = re.compile(r"could not read from remote|could not resolve|unable to access|unreachable", re.IGNORECASE)
# Not the middle of a relative path.
_PATH = re.compile(r"(?<![\w.+@~-])~?/[^\s'\"`:,;()]+")


class _Service(NamedTuple):
    """A service whose socket is absent in a guard, and what its clients print then."""

    printed: re.Pattern[str]
    what: str
    named: str


_SERVICES = (
    _Service(
        re.compile(r"DBUS_SESSION_BUS|XDG_RUNTIME_DIR|\b(message|scope|to) bus\b|\bd-bus\b", re.IGNORECASE),
        "the bus is",
        "its socket, and its variable (XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS) in `passEnv`",
    ),
    _Service(
        re.compile(r"authentication agent|SSH_AUTH_SOCK|host key verification failed|\([a-z,-]*publickey"),
        "~/.ssh and the ssh agent are",
        '"ssh" for the agent, known hosts and configuration, or a key by its path',
    ),
    _Service(
        re.compile(r"docker daemon|docker\.sock\b|podman\.sock\b"),
        "the container engine is",
        '"docker", which hands over the whole host',
    ),
)


class Listening:
    """A sink that keeps the end of a command's output, which nothing else keeps while it streams."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._ends = {"stdout": b"", "stderr": b""}

    async def __call__(self, stream: str, data: bytes) -> None:
        """Pass the output on."""
        self._ends[stream] = (self._ends.get(stream, b"") + data)[-_LONGEST_READ:]
        await self._sink(stream, data)

    def end(self, stream: str) -> str:
        """Return the end of what the command printed."""
        return self._ends[stream].decode("utf-8", "replace")


async def with_hint(reply: Reply, plan: Plan, sink: Listening | None) -> Reply:
    """Return the reply with a hint appended to its stderr, if there is one."""
    if reply.success:
        return reply
    output, errors = (
        (reply.stdout[-_LONGEST_READ:], reply.stderr[-_LONGEST_READ:])
        if sink is None
        else (sink.end("stdout"), sink.end("stderr"))
    )
    said = hint(f"{output}\n{errors}", plan)
    if said is None:
        return reply
    gap = "" if not errors or errors.endswith("\n") else "\n"
    if sink is not None:
        await sink("stderr", f"{gap}{said}\n".encode())
        return reply
    return reply._replace(stderr=f"{reply.stderr}{gap}{said}\n")


def hint(printed: str, plan: Plan) -> str | None:
    """Return how the guard may have caused a failure, a line for each cause; None if nothing suggests it."""
    if plan.guard is None:
        return None
    causes = _causes(printed, plan.guard.view, plan.grants, plan.env.get("HOME", ""))
    return "\n".join(f"crabpot: it ran in a guard, {cause}" for cause in causes) or None


def _causes(printed: str, view: View, grants: str, home: str) -> Iterator[str]:
    if _READ_ONLY.search(printed):
        places = ", ".join([*(place.path for place in view.writes), "a private /tmp"])
        yield f"which may write {places}; to add a place, name it in `writes` of {grants}"
    services = [] if view.sockets else [one for one in _SERVICES if one.printed.search(printed)]
    for one in services:
        yield f"where {one.what} absent; name in `credentials` of {grants} {one.named}"
    if not services and not view.sockets and _NO_SOCKET.search(printed):
        yield f"which reaches no socket; to show one, name it in `credentials` of {grants}"
    # A service's socket below /run is already spoken of.
    absent = [path for path in _absent(printed, view, home) if not (services and path.startswith("/run/"))]
    if absent:
        are = "is absent; name it" if len(absent) == 1 else "are absent; name what it needs"
        yield f"where {', '.join(absent[:_MOST_NAMED])} {are} in `credentials` of {grants}"
    if not view.network and _NO_NETWORK.search(printed):
        yield "and git in it has no network; push, fetch, pull, clone and ls-remote have one"


def _absent(printed: str, view: View, home: str) -> list[str]:
    """List the paths in the output that lead to something hidden, or to a private folder that lacks them."""
    found = []
    for line in printed.splitlines():
        refused = _REFUSED.search(line) is not None
        for text in _PATH.findall(line):
            path = os.path.normpath(f"{home}{text[1:]}" if text.startswith("~") else text).rstrip(".")
            # A link everywhere.
            path = path.removeprefix("/var") if path.startswith("/var/run/") else path
            if hides(view, path) or (refused and not reaches(view, path)):
                found.append(path)
    return list(dict.fromkeys(found))
