"""How many sandboxes and private folders there may be, and which sandbox is evicted for another. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol, TypeVar

from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crabpot.settings import Gateway

_FREE = "end one with `crabpot sandboxes stop NAME`, wait until one is idle, or raise the setting"

# Private folders outlive their sandboxes by a day or a week, so that an agent has many more of them.
_FOLDERS_FOR_EACH = 20


class Occupant(Protocol):
    """A live sandbox."""

    @property
    def agent(self) -> str:
        """Whose it is."""

    @property
    def idle(self) -> bool:
        """Whether nothing runs in it, so that only its /tmp would be lost."""

    @property
    def used(self) -> float:
        """When a call last was in it."""


One = TypeVar("One", bound=Occupant)


def to_evict(agent: str, live: Sequence[One], opening: Iterable[str], limits: Gateway) -> One | None:
    """Return the sandbox that must go before one more of this agent opens, if any; SandboxUnavailable if none can.

    `opening` has the agent of each sandbox that is being opened: those count, and cannot go.

    An agent at its limit loses its own least recently used idle one. Where all agents together are at theirs,
    whoever has the most does, and never one that has fewer than the agent that asks: an agent cannot keep others out
    by opening sessions, nor by keeping all of its own busy.
    """
    counts = Counter([*(one.agent for one in live), *opening])
    if counts[agent] >= limits.max_sandboxes_per_agent:
        own = [one for one in live if one.agent == agent and one.idle]
        if not own:
            raise SandboxUnavailable(
                f"the agent {agent} has {counts[agent]} sandboxes with something running in each, and may have "
                f"{limits.max_sandboxes_per_agent} (gateway.maxSandboxesPerAgent); {_FREE}"
            )
        return min(own, key=lambda one: one.used)
    if counts.total() >= limits.max_sandboxes:
        idle = [one for one in live if one.idle and (one.agent == agent or counts[one.agent] > counts[agent])]
        if not idle:
            raise SandboxUnavailable(
                f"there are {counts.total()} sandboxes, as many as there may be (gateway.maxSandboxes), and "
                f"something runs in each of the agent {agent} and of those with more than its {counts[agent]}; {_FREE}"
            )
        return min(idle, key=lambda one: (-counts[one.agent], one.used))
    return None


def most_folders(limits: Gateway) -> int:
    """Return how many private folders with something in them, and layers, one agent may have."""
    return _FOLDERS_FOR_EACH * limits.max_sandboxes_per_agent


def too_many_folders(agent: str, most: int) -> SandboxUnavailable:
    """Return the refusal of one more: no session's files go for those of another that the agent may have invented."""
    return SandboxUnavailable(
        f"the agent {agent} has the files of {most} sessions, as many as it may have ({_FOLDERS_FOR_EACH} times "
        "gateway.maxSandboxesPerAgent), and this would be one more; remove what is stale with `crabpot sandboxes "
        "prune`, single ones with `crabpot sandboxes recreate NAME`, or raise the setting"
    )
