"""What a claim is, what came of one, and the groups that claims are written into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from crabpot.proof.verify.target import Target

    Attack = Callable[[Target], Awaitable["Outcome"]]


# What a host command, or whoever carries something out for the agent, could be made to do.
HAND_OFF = "hand-off to the host"
_SHOWN = 12

# What a function's name cannot express.
_POSSESSIVES = {
    "hosts": "host's",
    "runners": "runner's",
    "kernels": "kernel's",
    "crabpots": "Crabpot's",
    "callers": "caller's",
    "runtimes": "runtime's",
    "containers": "container's",
    "streams": "stream's",
}


def few(words: list[str], most: int = _SHOWN) -> str:
    """Join some of many words, and add how many there were."""
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
    """One promise and the attack that would break it.

    `clauses` are the parts of a spec that it tries, `threats` the rows of `threats.py`. `excused_by` is the one clause
    whose announced weakness explains a failure. On the networks named in `open_on` the configuration itself gives away
    what is claimed.
    """

    name: str
    group: str
    attack: Attack
    clauses: tuple[str, ...] = ()
    threats: tuple[str, ...] = ()
    excused_by: str | None = None
    open_on: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the claim as a person reads it."""
        return " ".join(_POSSESSIVES.get(word, word) for word in self.name.split("_"))

    @property
    def because(self) -> str:
        """Return why somebody would try this."""
        return (self.attack.__doc__ or "").strip().partition("\n")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A claim that is not made, since the configuration gives away what it is about."""

    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One claim after its attack. `degraded` is how the backend had announced to keep only a part of its clause."""

    claim: Claim
    result: Outcome | Opened | NotCarriedOut
    seconds: float
    degraded: str | None = None

    @property
    def state(self) -> str:
        """Return `held`, `degraded` (broken, as announced), `open`, `broken`, or `error` (nothing is known)."""
        if isinstance(self.result, NotCarriedOut):
            return "error"
        if isinstance(self.result, Opened):
            return "open"
        if self.result.held:
            return "held"
        return "broken" if self.degraded is None else "degraded"

    @property
    def failed(self) -> bool:
        """Return whether a person must look at this."""
        return self.state in ("broken", "error")

    @property
    def tried(self) -> str:
        """Return what the attack did, as far as it got."""
        return self.result.tried if isinstance(self.result, Outcome) else ""

    @property
    def came_back(self) -> str:
        """Return what the kernel or the gateway answered, or why nothing was asked."""
        if isinstance(self.result, Outcome):
            return self.result.came_back
        return self.result.by if isinstance(self.result, Opened) else str(self.result)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form that reports are made from."""
        return {
            "claim": self.claim.name,
            "group": self.claim.group,
            "state": self.state,
            "tried": self.tried,
            "came_back": self.came_back,
            "degraded": self.degraded,
            "seconds": round(self.seconds, 3),
            "clauses": list(self.claim.clauses),
            "threats": list(self.claim.threats),
        }


class Group:
    """The claims of one kind, in the order in which they are written. Decorates an attack: `@claim.about(…)`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.claims: list[Claim] = []

    def about(
        self,
        *clauses: str,
        threats: Collection[str] = (),
        excused_by: str | None = None,
        open_on: Collection[str] = (),
    ) -> Callable[[Attack], Attack]:
        """Register an attack, whose function's name is the claim; name the clauses and the threats that it tries."""

        def take(attack: Attack) -> Attack:
            name: str = attack.__name__
            self.claims.append(
                Claim(
                    name=name,
                    group=self.name,
                    attack=attack,
                    clauses=clauses if excused_by is None else (*clauses, excused_by),
                    threats=tuple(threats),
                    excused_by=excused_by,
                    open_on=tuple(open_on),
                )
            )
            return attack

        return take
