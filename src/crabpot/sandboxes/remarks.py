"""Remarks for the person at a call's door: what its output does not tell, and what may not be meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.model import Place
from crabpot.wording import closest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crabpot.backends.base import Clause
    from crabpot.decide.placement import Placement
    from crabpot.decide.sessions import Session
    from crabpot.model import Verdict
    from crabpot.settings import Settings

# What a newcomer takes for granted. A sandbox that keeps these and has no quota of disk is no surprise worth a line.
_EXPECTED = ("limits.memory", "limits.cpus")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One sentence.

    With `once`, a door that has shown it does not show it again; with `quiet`, it is for a person at a terminal only.
    """

    text: str
    once: bool = False
    quiet: bool = False


def of_session(session: Session, placed: Verdict[Placement], settings: Settings) -> Iterator[Remark]:
    """Return what a session's key and place may surprise somebody with."""
    if placed.answer.where is Place.HOST:
        # Whoever wrote "off" knows; "non-main" is what people forget.
        off = settings.agent(session.agent).sandbox.mode == "off"
        yield Remark(text=f"this runs on the HOST: {placed.because} ({placed.source})", quiet=off)
    yield from _unknown_agent(session, settings)
    first, colon, rest = session.key.partition(":")
    if colon and rest and first != "agent" and closest(first, ["agent"]):
        meant = f'a session of its own, since only "agent:" names an agent; did you mean "agent:{rest}"?'
        yield Remark(text=f'"{session.key}" is {meant}')


def _unknown_agent(session: Session, settings: Settings) -> Iterator[Remark]:
    known = [settings.default_agent, *settings.entries]
    near = "" if session.agent in known else closest(session.agent, known)
    if near or (session.agent not in known and settings.entries):
        yield Remark(text=f'no agent "{session.agent}" is configured, so it has the defaults{near}')


def of_limits(clauses: Iterable[Clause]) -> Iterator[Remark]:
    """Return which limits this machine does not keep as they read."""
    short = [clause for clause in clauses if clause.state == "degraded" and clause.name.startswith("limits.")]
    if any(clause.name in _EXPECTED for clause in short):
        what = "; ".join(f"{clause.name}: {clause.how.partition(':')[0].partition(';')[0]}" for clause in short)
        yield Remark(text=f"this machine does not keep every limit in full: {what}. See crabpot explain", once=True)
