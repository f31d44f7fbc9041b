"""What a run left behind: what changed, what is gated, what was refused, and one key to decide about it."""

from __future__ import annotations

import os
import sys
import termios
import tty
from typing import TYPE_CHECKING

from crabpot.approvals.requests import DEADLINE
from crabpot.audit.reading import AuditReader
from crabpot.doors.cli.frame import complain, note
from crabpot.doors.cli.show import visible
from crabpot.layers.changes.reading import changes
from crabpot.layers.store import LayerStore
from crabpot.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from crabpot.layers.changes.change import Change
    from crabpot.presets.plan import RunPlan

_SHOWN = 12
_MARKS = {"added": "+", "modified": "~", "deleted": "-"}
_KEYS = {"l": "diff", "a": "apply", "d": "discard"}
_LOOKED_AT = 10_000


def last_record(state: str) -> int:
    """Return the number of the audit log's last record: what comes after it belongs to this run."""
    found = AuditReader(state).last(1)
    return int(found[0]["number"]) if found else 0


def report(plan: RunPlan, state: str, since: int, commits: list[dict[str, Any]]) -> bool:
    """Report on stderr what a run left; return whether there is something to decide."""
    for text in dict.fromkeys(_refusals(plan, state, since)):
        complain(text)
    if plan.way != "review":
        return False
    layer = LayerStore(state).find(plan.session)
    found = [] if layer is None else [one for one in changes(layer) if one.kind != "folder"]
    if not found and not commits:
        complain("nothing changed")
        return False
    for text in _listed(found) if found else ():
        complain(text)
    for one in commits:
        told = f"{counted(one['count'], 'commit')} on {one['branch']}: what is applied brings it as a branch of its own"
        complain(visible(told))
    return True


def decide(plan: RunPlan, changes_command: Callable[[list[str]], int]) -> None:
    """Ask for one key on the terminal, until the changes are applied, kept or discarded."""
    while True:
        key = _key("crabpot: [l]ook, [a]pply, [k]eep for --continue, [d]iscard? ")
        if key not in _KEYS:
            break
        code = changes_command([_KEYS[key], "--session", plan.session])
        if key != "l" and code == 0:
            return
    remind(plan)


def remind(plan: RunPlan) -> None:
    """Report that the changes are kept, and how to come back to them."""
    decide_by = f"crabpot changes diff|apply|discard --session {plan.session}"
    note(f"the changes are kept: crabpot run --continue goes on, {decide_by}")


def _listed(found: list[Change]) -> Iterator[str]:
    gated = [one for one in found if one.gate is not None]
    yield f"{counted(len(found), 'file')} changed, not yet in your folder" + (
        f"; {len(gated)} gated: the host would execute what they say" if gated else ""
    )
    for one in found[:_SHOWN]:
        why = f"  (gated: {one.gate})" if one.gate else "  (conflict: changed outside too)" if one.conflict else ""
        yield f"  {_MARKS[one.action]} {visible(one.path)}{why}"
    if len(found) > _SHOWN:
        yield f"  and {len(found) - _SHOWN} more"


def _refusals(plan: RunPlan, state: str, since: int) -> Iterator[str]:
    """Yield what this run was refused: connections, and commands that a person or nobody agreed to."""

    def wanted(record: dict[str, Any]) -> bool:
        return bool(record["number"] > since and record.get("session") == plan.session)

    asked: dict[str, str] = {}
    for record in AuditReader(state).last(_LOOKED_AT, wanted=wanted):
        if record.get("kind") == "request" and record.get("destination") is None:
            asked[str(record["request"])] = str(record.get("shown"))
        elif record.get("kind") == "answer" and record.get("allowed") is False and record["request"] in asked:
            yield visible(f"refused: {asked[record['request']]}: {_why_not(record)}")
        elif record.get("kind") == "call" and record.get("error") == "denied" and record.get("tool") == "exec":
            yield visible(f"refused: {record['args'].get('command')}: {record.get('because')} ({record.get('rule')})")
        elif record.get("kind") == "connection" and record.get("answer") in ("refused", "failed"):
            place, because = str(record.get("destination")), str(record.get("because"))
            unlisted = because.startswith((f"{place} is not listed", "network.allow is empty"))
            why = f"not listed; --allow {place} lists it" if unlisted else because
            yield visible(f"{record['answer']}: {place}: {why}")


def _why_not(answer: dict[str, Any]) -> str:
    if answer.get("by") == DEADLINE:
        return "nobody answered in time"
    return str(answer.get("reason") or "the operator said no")


def _key(question: str) -> str:
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        # Before the question is shown: what was typed for the agent is no answer to it.
        tty.setcbreak(fd, termios.TCSAFLUSH)
        sys.stderr.write(question)
        sys.stderr.flush()
        pressed = os.read(fd, 1).decode("ascii", "replace").lower()
    finally:
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)
    sys.stderr.write(f"{pressed if pressed.isprintable() else ''}\n")
    return pressed
