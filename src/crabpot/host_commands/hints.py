"""Hints for a guarded command that failed for lack of access: what it has, and the setting that adds more."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.host_commands.guard.view import reaches

if TYPE_CHECKING:
    from crabpot.host_commands.plan import Plan
    from crabpot.wire.in_flight import Sink
    from crabpot.wire.replies import Reply

_LONGEST_READ = 16 * 1024
_READ_ONLY = re.compile(r"read-only file system|\bEROFS\b", re.IGNORECASE)
_NO_SOCKET = re.compile(r"address family not supported|\bEAFNOSUPPORT\b", re.IGNORECASE)
_REFUSED = re.compile(r"no such file or directory|permission denied|\bENOENT\b|\bEACCES\b", re.IGNORECASE)
_NO_NETWORK = re.compile(r"could not read from remote|could not resolve|unable to access|unreachable", re.IGNORECASE)
_PATH = re.compile(r"/[^\s'\"`:,;()]+")


class Listening:
    """A sink that keeps the end of a command's stderr, which nothing else keeps while it streams."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._errors = b""

    async def __call__(self, stream: str, data: bytes) -> None:
        """Pass the output on."""
        if stream == "stderr":
            self._errors = (self._errors + data)[-_LONGEST_READ:]
        await self._sink(stream, data)

    @property
    def errors(self) -> str:
        """The end of the command's stderr."""
        return self._errors.decode("utf-8", "replace")


async def with_hint(reply: Reply, plan: Plan, sink: Listening | None) -> Reply:
    """Return the reply with a hint appended to its stderr, if there is one."""
    errors = reply.stderr[-_LONGEST_READ:] if sink is None else sink.errors
    said = None if reply.success else hint(errors, plan)
    if said is None:
        return reply
    gap = "" if not errors or errors.endswith("\n") else "\n"
    if sink is not None:
        await sink("stderr", f"{gap}{said}\n".encode())
        return reply
    return replace(reply, stderr=f"{reply.stderr}{gap}{said}\n")


def hint(errors: str, plan: Plan) -> str | None:
    """Return how the guard may have caused a failure; None if nothing suggests it."""
    if plan.guard is None:
        return None
    view, source = plan.guard.view, plan.source
    missing = [path for path in _PATH.findall(errors) if not reaches(view, path)]
    if _READ_ONLY.search(errors):
        places = ", ".join([*(place.path for place in view.writes), "a private /tmp"])
        return f"crabpot: it ran in a guard, which may write {places}; to add a place, name it in `writes` of {source}"
    if _NO_SOCKET.search(errors) and not view.sockets:
        return f"crabpot: it ran in a guard, which reaches no socket; to show one, name it in `credentials` of {source}"
    if _NO_NETWORK.search(errors) and not view.network:
        return "crabpot: git ran in a guard without a network; push, fetch, pull, clone and ls-remote have one"
    if missing and _REFUSED.search(errors):
        return f"crabpot: it ran in a guard, where {missing[0]} is absent; name it in `credentials` of {source}"
    return None
