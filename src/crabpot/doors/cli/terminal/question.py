"""What a person reads before agreeing, and what the typed line means."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from crabpot.approvals import forms
from crabpot.approvals.display import line
from crabpot.approvals.requests import MOST_MINUTES, Answer, denied, left_s
from crabpot.doors.cli.invocation import on, pasted
from crabpot.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.approvals.requests import Request

_CHOICES = "o once · {}d [reason] deny, then Enter"
_ANSWERS = 'o accept with nothing filled in · a {"name": "value"} answer · d [reason] deny, then Enter'
_LASTING = "s this session · m N for N minutes · "
_LISTED = "c write it into the agent's entry of the configuration · "
_DURATION = 's and m end with {} at the latest; "s keep" and "m N keep" outlive it'

# How often a request that waits is shown again where nobody is asked directly.
REMIND_S = 60.0
# A command longer than a screen could push its beginning or its end out of sight.
_LONGEST = 1500
_MOST_ROWS = 12


def choices(request: Request) -> str:
    """Return what may be typed; a destination may also be listed for good."""
    if request.kind == "question":
        return _ANSWERS
    listed = _LISTED if request.kind == "connection" else ""
    return _CHOICES.format(f"{_LASTING if request.lasting else ''}{listed}")


def duration(request: Request) -> str:
    """Return how long an approval lasts."""
    if request.lasting:
        return _DURATION.format(request.ends_with)
    if request.kind == "question":
        return "the server gets what you type, and nothing else"
    return f"{line(request.argv[0])} may execute what is in the agent's folder, so it is allowed once at a time"


_ASKED = {
    "command": "may this command run on the HOST",
    "connection": "may this connection leave the sandbox",
    "question": "what is this MCP server to be told",
}


def lines(request: Request) -> Iterator[str]:
    """Return all that is known of a request. Any part of it may be the agent's choice, so none is shown unescaped."""
    yield f"crabpot asks: {_ASKED[request.kind]}?  (request {request.id})"
    yield _row("command" if request.kind == "command" else "what", _short(request.shown, request.id))
    for name, wants in forms.fields(request.form or {}):
        yield _row("field", _short(line(f"{name}: {wants}"), request.id))
    if request.shown_bytes is not None:
        yield _row("as bytes", _short(request.shown_bytes, request.id))
    if request.binary is not None:
        yield _row("program", f"{line(request.binary.path)}  (sha256 {request.binary.sha256[:16]}…)")
    if request.folder is not None:
        yield _row("folder", line(request.folder.path))
    yield _row("session", line(request.session))
    yield _row("sender", "not named" if request.sender is None else line(request.sender))
    yield _row("matches", f"{line(request.pattern)}  ({line(request.source)})")
    yield from _several("does", request.effects, request.id)
    yield from _confinement(request)
    yield from _several("executes", request.executes, request.id)
    yield from _several("DANGER", request.dangers, request.id)
    yield _row("until", time.strftime("%H:%M:%S", time.localtime(request.deadline)))


_CONFINED = {
    "guarded": "in a guard: it sees the host read-only, without credentials and sockets but those given",
    "host": "NOT AT ALL: it may do whatever you may",
    "user": "by the other user's own rights alone",
    "git": "git runs as you, in a repository of the gateway's own: nothing of the agent's is executed",
}


def _confinement(request: Request) -> Iterator[str]:
    if request.kind == "command":
        yield _row("confined", _CONFINED.get(request.confine, line(request.confine)))
        yield from _several("writes", request.writes, request.id)
        yield from _several("given", request.credentials, request.id)


def notice(request: Request, state: str) -> Iterator[str]:
    """Return two lines: what waits and until when, and how to answer it from any terminal of the same user."""
    left = left_s(request, time.time())
    until = time.strftime("%H:%M:%S", time.localtime(request.deadline))
    yield f"waiting for approval of: {_short(request.shown, request.id)}"
    how = f"{on(state)} approvals"
    yield f"until {until} ({left} s): {how} allow {request.id}   or: {how} deny {request.id}"


def _row(name: str, value: str) -> str:
    return f"  {name:<9} {value}"


def _several(name: str, values: tuple[str, ...], request_id: str) -> Iterator[str]:
    for value in values[:_MOST_ROWS]:
        yield _row(name, _short(line(value), request_id))
    if len(values) > _MOST_ROWS:
        yield _row(name, pasted(f"and {len(values) - _MOST_ROWS} more: crabpot approvals show {request_id}"))


def _short(text: str, request_id: str) -> str:
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    left_out = len(text) - 2 * half
    whole = pasted(f"crabpot approvals show {request_id}")
    return f"{text[:half]} [… {left_out} characters: {whole} …] {text[-half:]}"


def understood(request: Request, text: str, by: str) -> Answer | None:
    """Parse a typed answer; return None unless it is exactly one."""
    words = text.split()
    if not words:
        return None
    key, rest = words[0], words[1:]
    keep = rest[-1:] == ["keep"]
    if request.kind == "question" and key in ("o", "a"):
        given = Answer(allowed=True, by=by) if key == "o" else _worded(text.strip()[1:], by)
        return None if given is None or request.problem_with(given) is not None else given
    if key == "o" and not rest:
        return Answer(allowed=True, by=by)
    if key == "c" and not rest and request.kind == "connection":
        return Answer(allowed=True, grant="config", by=by)
    if key in ("s", "m") and not request.lasting:
        return None
    if key == "s" and rest in ([], ["keep"]):
        return Answer(allowed=True, grant="session", by=by, keep=keep)
    if key == "m" and len(rest) == 1 + keep and _is_minutes(rest[0]):
        return Answer(allowed=True, grant="minutes", minutes=int(rest[0]), by=by, keep=keep)
    if key == "d":
        return denied(by, text.strip()[1:].strip() or None)
    return None


def _worded(text: str, by: str) -> Answer | None:
    try:
        return Answer.from_json({"allowed": True, "by": by, "content": json.loads(text)})
    except (ValueError, RecursionError):
        return None


def _is_minutes(text: str) -> bool:
    short = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_MINUTES))
    return short and 0 < int(text) <= MOST_MINUTES


def outcome(answer: Answer, request: Request) -> str:
    """Return what an answer means, and what ends it before its time."""
    if not answer.allowed:
        return "denied"
    ends = {"session": f", until {request.ends_with} ends", "minutes": f", or until {request.ends_with} ends"}
    lasting = {
        "once": "once",
        "session": "for this session",
        "minutes": f"for {counted(answer.minutes or 0, 'minute')}",
        "config": "and written into the configuration",
    }
    return f"allowed {lasting[answer.grant]}{', also after a restart' if answer.keep else ends.get(answer.grant, '')}"
