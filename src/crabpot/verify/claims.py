"""What a claim is, what came of one, and the groups that claims are written into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crabpot.verify.target import Target

    Attack = Callable[[Target], Awaitable["Outcome"]]


_SHOWN = 12

# What a function's name cannot say.
_POSSESSIVES = {
    "hosts": "host's",
    "runners": "runner's",
    "kernels": "kernel's",
    "crabpots": "Crabpot's",
    "callers": "caller's",
}


def few(words: list[str], most: int = _SHOWN) -> str:
    """Join some of many words, and say how many there were."""
    rest = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + rest


class NotCarriedOut(CrabpotError):
    """The attack could not be made, so nothing is known: an error, never a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was tried against a claim, what came back, and whether the claim stands."""

    held: bool
    tried: str
    came_back: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One promise and the attack that would break it. `clause` names the part of a spec that it rests on, if any."""

    name: str
    group: str
    attack: Attack
    clause: str | None = None

    @property
    def text(self) -> str:
        """The claim as a person reads it."""
        return " ".join(_POSSESSIVES.get(word, word) for word in self.name.split("_"))

    @property
    def because(self) -> str:
        """Why somebody would try this."""
        return (self.attack.__doc__ or "").strip().partition("\n")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One claim after its attack. `degraded` is how the backend had announced to keep only a part of its clause."""

    claim: Claim
    result: Outcome | NotCarriedOut
    seconds: float
    degraded: str | None = None

    @property
    def state(self) -> str:
        """`held`, `degraded` (broken, and the backend had said so), `broken`, or `error` (nothing is known)."""
        if isinstance(self.result, NotCarriedOut):
            return "error"
        if self.result.held:
            return "held"
        return "broken" if self.degraded is None else "degraded"

    @property
    def failed(self) -> bool:
        """Tell whether a person must look at this."""
        return self.state in ("broken", "error")

    def as_json(self) -> dict[str, Any]:
        """Give the shape that reports are made from."""
        outcome = self.result if isinstance(self.result, Outcome) else None
        return {
            "claim": self.claim.name,
            "group": self.claim.group,
            "state": self.state,
            "tried": outcome.tried if outcome else "",
            "came_back": outcome.came_back if outcome else str(self.result),
            "degraded": self.degraded,
            "seconds": round(self.seconds, 3),
        }


class Group:
    """The claims of one kind, in the order in which they are written. Decorates an attack: `@claim`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.claims: list[Claim] = []

    def __call__(self, attack: Attack) -> Attack:
        """Take an attack in; its function's name is the claim."""
        self._add(attack, None)
        return attack

    def about(self, clause: str) -> Callable[[Attack], Attack]:
        """Take an attack in whose claim rests on a clause that a machine may only keep in part."""

        def take(attack: Attack) -> Attack:
            self._add(attack, clause)
            return attack

        return take

    def _add(self, attack: Attack, clause: str | None) -> None:
        name: str = attack.__name__
        self.claims.append(Claim(name=name, group=self.name, attack=attack, clause=clause))
