"""Every framework's sandbox in one shape, so that one set of promises and one stopwatch do for all of them.

Each folder has a `provider.py`: `ours` opens ours, `theirs` what the framework itself has for this machine, and `said`
returns what a scripted model reads of a command that its agent ran.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A sandbox of one framework, by the framework's own methods.

    Attributes:
        run: Runs shell text; returns its output. What the framework takes as a failure of the sandbox raises.
        read: Returns the content of a file, or None where the framework has no such method.
        write: Writes a file, or None as above.
        nothing: Does the least that a command can do; without one, that is `run("true")`.
    """

    run: Callable[[str], Awaitable[str]]
    read: Callable[[str], Awaitable[bytes]] | None = None
    write: Callable[[str, bytes], Awaitable[object]] | None = None
    nothing: Callable[[], Awaitable[object]] | None = None

    async def least(self) -> None:
        """Do the least that a command can do."""
        await (self.run("true") if self.nothing is None else self.nothing())


class Framework(Protocol):
    """What a `provider.py` has."""

    def ours(self, **settings: Any) -> AbstractAsyncContextManager[Provider]:
        """Open a sandbox of ours."""

    def theirs(self, folder: str) -> AbstractAsyncContextManager[Provider]:
        """Open what the framework has for this machine."""

    def said(self, command: str, **settings: Any) -> str:
        """Return what a model reads of a command."""


def named(name: str) -> Framework:
    """Return the framework of a folder."""
    found: Any = importlib.import_module(f"tests.frameworks.{name}.provider")
    return found
