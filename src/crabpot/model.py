"""The data of a call, frozen: what is asked, what is decided, what comes back."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from crabpot.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Answer = TypeVar("Answer")


class Place(StrEnum):
    """Where a call ran."""

    SANDBOX = "sandbox"
    HOST = "host"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Generic[Answer]):
    """A decision, the rule that made it, and where that rule is written in the configuration."""

    answer: Answer
    because: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Something that a call waited for before it ran, with the times it began and ended."""

    name: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call by an agent. The door states the sender; the arguments never do."""

    id: str
    session: str
    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    sender: str | None = None
    began: float = field(default_factory=time.perf_counter, compare=False)
    stages: list[Stage] = field(default_factory=list, compare=False)

    def took_ms(self) -> float:
        """Return the milliseconds since the call began."""
        # In whole microseconds: to round a fraction takes ten times as long.
        return int((time.perf_counter() - self.began) * 1_000_000) / 1000

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record how long the call waits for the block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.stages.append(Stage(name=name, began=began, ended=time.perf_counter()))

    def failed(self, code: str, message: str, place: Place = Place.NONE) -> ToolResult:
        """Return the result of a call that has none of its own: `error` says why."""
        failure = Failure(code=code, message=message)
        return ToolResult(id=self.id, success=False, error=failure, place=place, duration_ms=self.took_ms())


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a call has no result of its own: a code from a closed list, and a sentence.

    Attributes:
        code: For programs, such as `denied`, `timeout`, `not_found` or `sandbox_unavailable` (docs/doors.md).
        message: For people: what failed, by which rule, and what to do next.
    """

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call. A command that fails is a result; `error` is for everything else.

    Attributes:
        id: The call's id, as in the audit log.
        success: Whether the tool did what was asked; for `exec`, whether the exit code is 0.
        stdout: What a command printed.
        stderr: What a command printed to standard error.
        exit_code: A command's exit code, None for other tools and for calls that did not run.
        error: Why there is no result, or None.
        truncated: Whether output was cut at a limit.
        data: What tools other than `exec` return.
        place: Where the call ran: sandbox, host or none.
        duration_ms: How long it took, waiting included.

    Example:
        >>> from crabpot import Failure, ToolResult
        >>> refused = ToolResult(id="1", success=False, error=Failure(code="denied", message="exec is denied"))
        >>> refused.outcome
        'denied'
        >>> refused.as_json()["place"]
        'none'
    """

    id: str
    success: bool
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    error: Failure | None = None
    truncated: bool = False
    data: Mapping[str, Any] | None = None
    place: Place = Place.NONE
    duration_ms: float = 0.0

    @property
    def outcome(self) -> str:
        """Return how the call ended, in one word: ok, failed, or the code of the error."""
        if self.error is not None:
            return self.error.code
        return "ok" if self.success else "failed"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form that every door sends."""
        error = None if self.error is None else {"code": self.error.code, "message": self.error.message}
        return {
            "id": self.id,
            "success": self.success,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "error": error,
            "truncated": self.truncated,
            "data": None if self.data is None else dict(self.data),
            "place": self.place.value,
            "duration_ms": self.duration_ms,
        }
