"""Crabpot's own files: who may read and write them, how much room there is, what the clock says. Pure."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.proof.doctor.lines import Line
from crabpot.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

_GIB = 1024**3
_LITTLE_ROOM, _NO_ROOM = 2 * _GIB, _GIB // 10
_DAY_S = 86400.0
_OLD_VERIFY_DAYS = 30
# No record can be older than the program itself.
_EARLIEST = 1_790_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPath:
    """A file or folder, as stat(2) shows it."""

    path: str
    uid: int
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Crabpot's files and the machine's clock."""

    uid: int
    config: CheckedPath | None
    state: CheckedPath | None
    sockets: tuple[CheckedPath, ...]
    free_bytes: int
    now: float
    last_record: float | None
    last_verify: float | None
    verify_held: bool = True


def look(own: Own) -> Iterator[Line]:
    """Judge them."""
    if own.config is None:
        says = "none: the defaults hold, which are safe"
        yield Line(area="crabpot", name="configuration", state="ok", says=says)
    else:
        yield _private(own, own.config, "configuration", readable=True)
    if own.state is None:
        yield Line(area="crabpot", name="state", state="ok", says="not made yet")
    else:
        yield _private(own, own.state, "state", readable=False)
    for place in own.sockets:
        yield _private(own, place, "socket", readable=False)
    yield _room(own)
    yield _clock(own)
    yield _verified(own)


def _private(own: Own, place: CheckedPath, name: str, *, readable: bool) -> Line:
    """Check that others may read only a configuration, which contains no secret; write nothing, and list nothing.

    They may pass through: root's sandboxes run as another user, and their folders lie in root's state.
    """
    if place.uid not in (own.uid, 0):
        says = f"{place.path} belongs to user {place.uid}, who can change it"
        return Line(area="crabpot", name=name, state="problem", says=says, fix=f"sudo chown {own.uid} {place.path}")
    if place.mode & (stat.S_IWGRP | stat.S_IWOTH):
        says = f"others can write {place.path}, and so decide what an agent may do"
        return Line(area="crabpot", name=name, state="problem", says=says, fix=f"chmod go-w {place.path}")
    if not readable and place.mode & (stat.S_IRGRP | stat.S_IROTH):
        says = f"others can read {place.path}"
        return Line(area="crabpot", name=name, state="warning", says=says, fix=f"chmod go= {place.path}")
    return Line(area="crabpot", name=name, state="ok", says=f"{place.path}, writable by us alone")


def _room(own: Own) -> Line:
    says = f"{own.free_bytes / _GIB:.1f} GiB free for sandboxes and the audit log"
    fix = "crabpot sandboxes prune, or another --state"
    if own.free_bytes < _NO_ROOM:
        return Line(area="crabpot", name="disk", state="problem", says=says, fix=fix)
    if own.free_bytes < _LITTLE_ROOM:
        return Line(area="crabpot", name="disk", state="warning", says=says, fix=fix)
    return Line(area="crabpot", name="disk", state="ok", says=says)


def _clock(own: Own) -> Line:
    fix = "timedatectl set-ntp true"
    if own.now < _EARLIEST:
        says = "the clock is years behind: leases, pruning and the audit log go by it"
        return Line(area="crabpot", name="clock", state="problem", says=says, fix=fix)
    if own.last_record is not None and own.last_record > own.now + 60:
        behind = (own.last_record - own.now) / 60
        says = f"the clock is {behind:.0f} min behind the last record of the audit log"
        return Line(area="crabpot", name="clock", state="warning", says=says, fix=fix)
    return Line(area="crabpot", name="clock", state="ok", says="not behind the audit log")


def _verified(own: Own) -> Line:
    if own.last_verify is None:
        says = "never with this state: no sandbox was attacked here"
        return Line(area="crabpot", name="last verify", state="warning", says=says, fix="crabpot verify")
    days = int((own.now - own.last_verify) / _DAY_S)
    if not own.verify_held:
        says = f"{counted(days, 'day')} ago, and not every claim held"
        return Line(area="crabpot", name="last verify", state="problem", says=says, fix="crabpot verify")
    if days > _OLD_VERIFY_DAYS:
        says = f"{counted(days, 'day')} ago; kernels and programs have changed since"
        return Line(area="crabpot", name="last verify", state="warning", says=says, fix="crabpot verify")
    return Line(area="crabpot", name="last verify", state="ok", says=f"{counted(days, 'day')} ago, every claim held")
