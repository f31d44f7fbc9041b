"""Requests to a person and their answers: frozen data that is stored, sent and shown as it is."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from crabpot.approvals import forms
from crabpot.approvals.display import as_bytes, displayed, line, shown
from crabpot.approvals.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["command", "connection", "question"]
Grant = Literal["once", "session", "minutes", "config"]

# Nobody remembers after a month what they allowed for a while.
MOST_MINUTES = 7 * 24 * 60
# How much of a reason reaches the agent in the message of its result.
_LONGEST_REASON = 500

DEADLINE, NOBODY, GONE = "deadline", "nobody", "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderIdentity:
    """The identity of the host folder that a command would start in."""

    path: str
    dev: int
    ino: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One command, connection or question that a person is asked about. Everything in it may be the agent's choice.

    Attributes:
        id: Names the request in `crabpot approvals`.
        kind: `command`, `connection`, or `question`: what an MCP server wants to know.
        session: The session that asks; `agent`, `scope_key` and `sender` say more about it.
        argv: The command's words; `binary` and `folder` are the program and the folder on the host.
        host: The destination of a connection, with its `port`.
        server: The MCP server that asks, with its `question` and the `form` of the answer, as a JSON schema.
        pattern: The rule that leads to the request; `source` is where it is written.
        deadline: When the request is denied unless it is answered, in seconds since the epoch.

    Example:
        >>> from crabpot import Request
        >>> request = Request(
        ...     id="5f0c", session="agent:main:main", agent="main", scope_key="shared", asked_at=0, deadline=300,
        ...     argv=("git", "push", "origin", "my branch"), pattern="git push *", source="tools.elevated.patterns[0]",
        ... )
        >>> print(request.shown)
        git push origin 'my branch'
    """

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
    server: str | None = None
    question: str = ""
    form: Mapping[str, Any] | None = None
    pattern: str
    source: str
    # What the program would run that the agent may have written, and what agreeing hands over.
    executes: tuple[str, ...] = ()
    dangers: tuple[str, ...] = ()
    # What it does elsewhere, such as what git pushes where; and which part of that a lease covers.
    effects: tuple[str, ...] = ()
    covers: str = ""
    # How it is confined on the host, what it may write there, and which credentials it gets.
    confine: str = "guarded"
    writes: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    # Whether a lease may be granted: not for what executes something of the agent's folder.
    lasting: bool = True
    # What a lease ends with, unless it is kept.
    ends_with: str = "its gateway"
    asked_at: float
    deadline: float

    @property
    def shown(self) -> str:
        """Return the command, connection or question on one line, with nothing in it that deceives the eye."""
        if self.kind == "question":
            return line(f"{self.server} asks: {self.question}")
        return shown(self.argv if self.kind == "command" else (f"{self.host}:{self.port}",))

    @property
    def shown_bytes(self) -> str | None:
        """Return the same in plain ASCII, byte by byte, if that differs from `shown`."""
        escaped = as_bytes(self.argv)
        return None if self.kind != "command" or escaped == self.shown else escaped

    def problem_with(self, answer: Answer) -> str | None:
        """Return why this answer is not possible for this request, or None."""
        if self.kind == "question":
            return self._problem_with_words(answer)
        if answer.content is not None:
            return "only a question of a server is answered with words"
        if answer.grant == "config" and self.kind == "command":
            return "only a connection can be written into the configuration; a command's pattern is yours to write"
        if answer.grant in ("session", "minutes") and not self.lasting:
            return f"{self.argv[0]} may execute what is in the agent's folder, so it is allowed once at a time"
        return None

    def _problem_with_words(self, answer: Answer) -> str | None:
        if answer.grant != "once":
            return "a question is answered once at a time"
        wrong = forms.problem(self.form or {}, answer.content or {}) if answer.allowed else None
        return None if wrong is None else f"{wrong} (crabpot approvals allow {self.id} --answer JSON)"

    @property
    def bound(self) -> str:
        """Return all that a lease is bound to, as one text: another sender, file, folder or danger is asked again."""
        names = (
            *("kind", "scope_key", "sender", "argv", "binary", "folder", "host", "port", "executes", "dangers"),
            *("server", "question", "form"),
            *("covers", "confine", "writes", "credentials"),
        )
        whole = asdict(self)
        return json.dumps([whole[name] for name in names], separators=(",", ":"), sort_keys=True)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form that is stored and sent; `shown` and `shown_bytes` are for people."""
        return {**asdict(self), "shown": self.shown, "shown_bytes": self.shown_bytes}

    def as_shown(self) -> dict[str, Any]:
        """Return the same JSON form for a page that displays it: nothing in it deceives the eye."""
        return {**displayed(asdict(self)), "shown": self.shown, "shown_bytes": self.shown_bytes}

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Request:
        """Return the request that `as_json` wrote."""
        fields = {name: value for name, value in given.items() if name not in ("shown", "shown_bytes")}
        binary, folder = fields["binary"], fields["folder"]
        fields["binary"] = None if binary is None else Identity(**binary)
        fields["folder"] = None if folder is None else FolderIdentity(**folder)
        for name in ("argv", "executes", "dangers", "effects", "writes", "credentials"):
            fields[name] = tuple(fields.get(name, ()))
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer to a request.

    Args:
        allowed: Whether the command or connection is allowed.
        grant: How far: `once`, `session` or `minutes` for a lease, or `config`, for a connection only, which also
            adds it to the agent's own entry of the configuration.
        minutes: How long a grant of `minutes` lasts, at most a week.
        reason: Why not; the agent sees it.
        by: Who answered, for the audit log.
        keep: Whether a lease outlives the gateway.
        content: The answer to a question, by the names of its form.

    Raises:
        ValueError: The fields contradict each other.

    Example:
        >>> from crabpot import Answer
        >>> Answer(allowed=True, grant="minutes", minutes=10, by="example").as_json()["grant"]
        'minutes'
        >>> Answer(allowed=False, grant="session", by="example")
        Traceback (most recent call last):
        ValueError: a denial grants nothing, so it lasts no longer than once
    """

    allowed: bool
    grant: Grant = "once"
    minutes: int | None = None
    reason: str | None = None
    by: str
    # A lease ends with the gateway it was granted to, unless `keep` is set.
    keep: bool = False
    content: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if (self.grant == "minutes") is (self.minutes is None):
            raise ValueError("minutes belong to a grant of minutes, and to no other")
        if self.minutes is not None and not 1 <= self.minutes <= MOST_MINUTES:
            raise ValueError(f"minutes are from 1 to {MOST_MINUTES}")
        if self.content is not None and not self.allowed:
            raise ValueError("a denial answers no question")
        if not self.allowed and self.grant != "once":
            raise ValueError("a denial grants nothing, so it lasts no longer than once")
        if self.keep and self.grant not in ("session", "minutes"):
            raise ValueError("keep needs a grant that lasts: for the session or for minutes")

    @property
    def code(self) -> str:
        """Return the error code that a denial gives the call."""
        return "approval_timeout" if self.by == DEADLINE else "approval_denied"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form that is stored, sent and recorded."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Answer:
        """Parse an answer that came from elsewhere; ValueError if it is not one."""
        allowed, reason, by = given.get("allowed"), given.get("reason"), given.get("by")
        grant, minutes, keep = given.get("grant", "once"), given.get("minutes"), given.get("keep", False)
        if type(allowed) is not bool or type(keep) is not bool or grant not in get_args(Grant):
            raise ValueError(f"an answer allows or denies; its grant is one of: {', '.join(get_args(Grant))}")
        if not isinstance(by, str) or not isinstance(reason, str | None) or type(minutes) not in (int, type(None)):
            raise ValueError("an answer names who gave it; its reason is text and its minutes a number")
        content = given.get("content")
        if not isinstance(content, dict | None):
            raise ValueError("the content of an answer is an object, by the names of the form")  # noqa: TRY004  as above
        return cls(allowed=allowed, grant=grant, minutes=minutes, reason=reason, by=by, keep=keep, content=content)


def denied(by: str, reason: str | None = None) -> Answer:
    """Return a denial."""
    return Answer(allowed=False, by=by, reason=None if reason is None else reason[:_LONGEST_REASON])


def new_id() -> str:
    """Return a new id for a request or a lease: short enough to type, and never used twice."""
    return os.urandom(4).hex()


def left_s(request: Request, now: float) -> int:
    """Return how many seconds are left to answer."""
    return max(0, math.ceil(request.deadline - now))
