"""What a person is asked, and what a person may answer: frozen data that is stored, sent and shown as it is."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from crabpot.approvals.display import as_bytes, displayed, shown
from crabpot.approvals.identity import Identity

Kind = Literal["command", "connection"]
Grant = Literal["once", "session", "minutes", "config"]

# Nobody remembers next month what was agreed to for a while.
MOST_MINUTES = 7 * 24 * 60
# What an agent, through the message of its result, is told of a reason.
_LONGEST_REASON = 500

DEADLINE, NOBODY, GONE = "deadline", "nobody", "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderIdentity:
    """Which folder of the host a command would start in, beyond its path."""

    path: str
    dev: int
    ino: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One command, or one connection, that a person is asked about. Everything in it may be the agent's choice."""

    id: str
    kind: Kind = "command"
    session: str
    agent: str
    scope_key: str
    sender: str | None = None
    argv: tuple[str, ...] = ()
    binary: Identity | None = None
    folder: FolderIdentity | None = None
    host: str | None = None
    port: int | None = None
    pattern: str
    source: str
    # What the program would run that the agent may have written, and what is handed over by agreeing.
    executes: tuple[str, ...] = ()
    dangers: tuple[str, ...] = ()
    # What it does elsewhere, such as what git pushes where; and of that, what a lease is for.
    effects: tuple[str, ...] = ()
    covers: str = ""
    # How far the host is kept from it, what it may write there, and which credentials it is given.
    confine: str = "guarded"
    writes: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    # Whether it may be allowed for longer than once: not what executes something of the agent's folder.
    lasting: bool = True
    asked_at: float
    deadline: float

    @property
    def shown(self) -> str:
        """Give what it is about on one line, with nothing in it that deceives the eye."""
        return shown(self.argv if self.kind == "command" else (f"{self.host}:{self.port}",))

    @property
    def shown_bytes(self) -> str | None:
        """Give the same in plain ASCII, byte by byte, where that differs from what is shown."""
        told = as_bytes(self.argv)
        return None if self.kind == "connection" or told == self.shown else told

    def problem_with(self, answer: Answer) -> str | None:
        """Say why this cannot be answered so, or None."""
        if answer.grant == "config" and self.kind == "command":
            return "only a connection can be written into the configuration; a command's pattern is yours to write"
        if answer.grant in ("session", "minutes") and not self.lasting:
            return f"{self.argv[0]} may execute what is in the agent's folder, so it is allowed once at a time"
        return None

    @property
    def bound(self) -> str:
        """Give, as one text, all that a lease holds for: another sender, file, folder or danger is asked anew."""
        names = (
            *("kind", "scope_key", "sender", "argv", "binary", "folder", "host", "port", "executes", "dangers"),
            *("covers", "confine", "writes", "credentials"),
        )
        whole = asdict(self)
        return json.dumps([whole[name] for name in names], separators=(",", ":"), sort_keys=True)

    def as_json(self) -> dict[str, Any]:
        """Give the shape that is stored and sent; `shown` and `shown_bytes` are for people."""
        return {**asdict(self), "shown": self.shown, "shown_bytes": self.shown_bytes}

    def as_shown(self) -> dict[str, Any]:
        """Give the same shape for a page that shows what it is given: nothing in it deceives the eye."""
        return {**displayed(asdict(self)), "shown": self.shown, "shown_bytes": self.shown_bytes}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Request:
        """Read what `as_json` wrote."""
        fields = {name: value for name, value in given.items() if name not in ("shown", "shown_bytes")}
        binary, folder = fields["binary"], fields["folder"]
        fields["binary"] = None if binary is None else Identity(**binary)
        fields["folder"] = None if folder is None else FolderIdentity(**folder)
        for name in ("argv", "executes", "dangers", "effects", "writes", "credentials"):
            fields[name] = tuple(fields.get(name, ()))
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was answered, and by whom. `config`, for a connection: and listed in the agent's own entry."""

    allowed: bool
    grant: Grant = "once"
    minutes: int | None = None
    reason: str | None = None
    by: str
    # A lease ends with the gateway that it was granted to, unless it is kept.
    keep: bool = False

    def __post_init__(self) -> None:
        if (self.grant == "minutes") is (self.minutes is None):
            raise ValueError("minutes are given for a grant of minutes, and for no other")
        if self.minutes is not None and not 1 <= self.minutes <= MOST_MINUTES:
            raise ValueError(f"minutes are from 1 to {MOST_MINUTES}")
        if not self.allowed and self.grant != "once":
            raise ValueError("a denial grants nothing, so it lasts no longer than once")
        if self.keep and self.grant not in ("session", "minutes"):
            raise ValueError("only what lasts can be kept: a grant for the session or for minutes")

    @property
    def code(self) -> str:
        """Give the code of the result that a denial makes."""
        return "approval_timeout" if self.by == DEADLINE else "approval_denied"

    def as_json(self) -> dict[str, Any]:
        """Give the shape that is stored, sent and recorded."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Answer:
        """Read an answer that came from elsewhere; ValueError where it is none."""
        allowed, reason, by = given.get("allowed"), given.get("reason"), given.get("by")
        grant, minutes, keep = given.get("grant", "once"), given.get("minutes"), given.get("keep", False)
        if type(allowed) is not bool or type(keep) is not bool or grant not in get_args(Grant):
            raise ValueError(f"an answer allows or denies; its grant is one of: {', '.join(get_args(Grant))}")
        if not isinstance(by, str) or not isinstance(reason, str | None) or type(minutes) not in (int, type(None)):
            raise ValueError("an answer names who gave it; its reason is text and its minutes a number")
        return cls(allowed=allowed, grant=grant, minutes=minutes, reason=reason, by=by, keep=keep)


def denied(by: str, reason: str | None = None) -> Answer:
    """Make a denial."""
    return Answer(allowed=False, by=by, reason=None if reason is None else reason[:_LONGEST_REASON])


def new_id() -> str:
    """Name a request or a lease: short enough to type, and never given twice."""
    return os.urandom(4).hex()


def left_s(request: Request, now: float) -> int:
    """Say how many seconds are left to answer."""
    return max(0, math.ceil(request.deadline - now))
