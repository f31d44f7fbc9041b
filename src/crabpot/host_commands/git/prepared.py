"""A prepared git operation: what it shows before anybody agrees, and how it then runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.runner.exec.output import BothEnds
from crabpot.wire.replies import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from crabpot.approvals.identity import Identity
    from crabpot.host_commands.git.clock import Clock
    from crabpot.host_commands.git.inside import Inside
    from crabpot.host_commands.git.outside import Bounds
    from crabpot.wire.in_flight import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class GitContext:
    """What the steps of an operation share: the sandbox's git and the host's, and their surroundings."""

    state: str
    inside: Inside
    git: Identity
    env: Mapping[str, str]
    """The environment of the operator's git."""
    root: str
    """The folder of the host that is mounted in the sandbox."""
    folder: str
    """The working folder on the host, for remotes that are relative paths."""
    written: tuple[str, ...]
    """The folders of the host that sandboxes may write."""
    secrets: tuple[str, ...]
    """Paths of credentials and Crabpot's own files, which are never remotes."""
    bounds: Bounds
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An operation that is ready to run once a person agrees."""

    url: str
    lines: tuple[str, ...]
    """What the request shows: each refspec, with its commits."""
    dangers: tuple[str, ...]
    bound: tuple[str, ...]
    """What a lease is bound to: the operation, the URL, the refs, and what is forced or deleted; not the commits."""
    _run: Callable[[Telling], Awaitable[int]] = field(repr=False)
    _clock: Clock = field(repr=False)

    async def carry_out(self, telling: Telling) -> int:
        """Run the operation within the time left; return the exit code."""
        return await self._run(telling)

    async def run(self, *, timeout_s: float, output_limit: int, sink: Sink | None = None) -> Reply:
        """Run the operation. Output is streamed to `sink`, or kept and cut at its limit."""
        self._clock.limit_s = timeout_s
        self._clock.restart()
        telling = Telling(output_limit, sink)
        return telling.reply(await self._run(telling))


class Telling:
    """The output of an operation, in git's style."""

    def __init__(self, limit: int, sink: Sink | None) -> None:
        self._sink = sink
        self._kept = {name: BothEnds(limit) for name in ("stdout", "stderr")}

    async def __call__(self, stream: str, data: bytes) -> None:
        """Add what a git wrote."""
        if self._sink is not None:
            await self._sink(stream, data)
        elif stream in self._kept:
            self._kept[stream].add(data)

    async def say(self, text: str) -> None:
        """Add a line of our own."""
        await self("stderr", f"{text}\n".encode("utf-8", "surrogateescape"))

    def reply(self, exit_code: int, error: tuple[str, str] | None = None) -> Reply:
        """Return the reply for the whole operation."""
        texts: dict[str, Any] = {
            name: kept.rest().decode("utf-8", "replace") if self._sink is None else ""
            for name, kept in self._kept.items()
        }
        return Reply(
            success=exit_code == 0,
            exit_code=exit_code,
            error=error,
            truncated=any(kept.truncated for kept in self._kept.values()),
            data=None,
            **texts,
        )
