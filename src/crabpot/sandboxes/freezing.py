"""One freeze of many sandboxes: which are in it, and that each is thawed afterwards or given up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from crabpot.errors import SandboxLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Freezable(Protocol):
    """What can be frozen, or at least be ended."""

    @property
    def lost(self) -> bool:
        """Whether it stopped answering."""

    async def freeze(self) -> None:
        """Stop it; SandboxLost if that cannot be done."""

    async def thaw(self) -> None:
        """Let it go on; SandboxLost if it cannot."""

    async def end(self) -> None:
        """End it."""


One = TypeVar("One", bound=Freezable)


class Freeze(Generic[One]):
    """Sandboxes that are frozen until the block ends."""

    def __init__(self, which: Callable[[One], bool], give_up: Callable[[One, str], object]) -> None:
        self._which = which
        self._give_up = give_up
        self._seen: list[One] = []
        self._frozen: list[One] = []

    def __contains__(self, one: object) -> bool:
        """Return whether this freeze has dealt with it."""
        return one in self._seen

    async def take_all(self, ones: Iterable[One]) -> None:
        """Freeze those of them that this freeze is about."""
        # No task for each of the others: a hostile agent's hundred sandboxes would delay everybody's host commands.
        await asyncio.gather(*(self._stop(one) for one in ones if self._concerns(one)))

    async def take(self, one: One) -> None:
        """Freeze a sandbox if this freeze is about it."""
        if self._concerns(one):
            await self._stop(one)

    def _concerns(self, one: One) -> bool:
        self._seen.append(one)
        return self._which(one)

    async def _stop(self, one: One) -> None:
        """Freeze one. If it cannot be frozen, it is ended: it must not move either."""
        if not one.lost:
            self._frozen.append(one)
            try:
                # Shielded: a freeze cancelled half-way could not be told from one that never began.
                await asyncio.shield(one.freeze())
            except SandboxLost:
                await one.end()
        else:
            await one.end()

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Thaw all of them, cancelled or not."""
        await asyncio.shield(asyncio.ensure_future(self._thaw()))

    async def _thaw(self) -> None:
        await asyncio.gather(*map(self._thaw_one, self._frozen))

    async def _thaw_one(self, one: One) -> None:
        try:
            await one.thaw()
        except SandboxLost as error:
            # Its end is not awaited: it waits for the host commands of the sandbox, and one of them may wait here.
            self._give_up(one, str(error))
