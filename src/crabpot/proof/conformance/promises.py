"""What a promise is, and the assertions by which one is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.model import ToolResult
    from crabpot.proof.conformance.harness import Harness

    Check = Callable[[Harness], Awaitable[None]]


class Broken(AssertionError):
    """A promise that was not kept: what was expected, and what came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One behaviour. `sandbox_only` says that it does not apply on the host, where nothing is confined."""

    name: str
    check: Check
    sandbox_only: bool = False


class Chapter:
    """The promises about one thing. Decorates a check, whose name is the promise: `@promise`."""

    def __init__(self, *, sandbox_only: bool = False) -> None:
        self.promises: list[Promise] = []
        self._sandbox_only = sandbox_only

    def __call__(self, check: Check) -> Check:
        """Register a check."""
        self.promises.append(Promise(name=check.__name__, check=check, sandbox_only=self._sandbox_only))
        return check


def same(what: str, came: object, expected: object) -> None:
    """Expect one value."""
    if came != expected:
        raise Broken(f"{what}: got {came!r}, expected {expected!r}")


def true(what: str, holds: object) -> None:
    """Expect something to hold."""
    if not holds:
        raise Broken(f"{what}: it is {holds!r}")


def good(result: ToolResult) -> dict[str, Any]:
    """Expect a call to succeed, and return its data."""
    if not result.success or result.error is not None:
        raise Broken(f"a call failed: {result.error or result.exit_code}: {result.stderr[-300:]}")
    return dict(result.data or {})


def bad(result: ToolResult, *codes: str) -> str:
    """Expect a call to fail with one of these codes, and return its message."""
    if result.success or result.error is None or result.error.code not in codes:
        raise Broken(f"expected {' or '.join(codes)}; got success {result.success}, error {result.error}")
    return result.error.message
