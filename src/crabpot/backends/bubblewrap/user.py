"""Whom a sandbox runs as: decided from the spec and the gateway's user. Never root."""

from __future__ import annotations

import grp
import os
import shlex
from typing import TYPE_CHECKING

from crabpot.frozen import dataclass
from crabpot.spec import hardening
from crabpot.spec.spec import User

if TYPE_CHECKING:
    from crabpot.spec.spec import SandboxSpec

NOBODY = User(uid=hardening.NOBODY, gid=hardening.NOBODY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A user, or why there is none; either way the reason, for a person."""

    user: User | None
    because: str


def choose(spec: SandboxSpec, *, gateway: User, owner: User | None) -> Choice:
    """Choose the user. `owner` is that of the rw workspace, None if the folder is private or does not exist yet."""
    if gateway.uid != 0:
        return _ordinary(spec, gateway)
    if spec.layer is None and not spec.private and owner is not None and owner.uid == 0:
        return _root_owned(spec)
    if spec.user is not None:
        return Choice(user=spec.user, because="as configured; the gateway drops to it before bwrap starts")
    if spec.private or owner is None:
        return Choice(user=NOBODY, because="nobody: the gateway is root and the workspace is Crabpot's own")
    if owner.uid == 0:
        return Choice(user=NOBODY, because="nobody: the folder under review is root's, and its layer Crabpot's own")
    # A file of group root gives no membership in it: that group can read what others must not.
    user = User(uid=owner.uid, gid=owner.gid or owner.uid)
    return Choice(user=user, because="the owner of the workspace; the gateway drops to it before bwrap starts")


def other_groups() -> tuple[str, ...]:
    """Return an ordinary gateway's groups beside its own, by name; root drops all before it starts a bwrap."""
    if os.geteuid() == 0:
        return ()
    return tuple(_group_name(gid) for gid in sorted(set(os.getgroups()) - {os.getegid()}))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _ordinary(spec: SandboxSpec, gateway: User) -> Choice:
    if spec.user not in (None, gateway):
        wanted = f"{spec.user.uid}:{spec.user.gid}" if spec.user else ""
        own = f"{gateway.uid}:{gateway.gid}"
        return Choice(
            user=None,
            because=f"user {wanted} needs a gateway that runs as root, and this one is {own}: "
            f'remove sandbox.user, write "{own}", or start Crabpot as root',
        )
    if gateway.gid == 0:
        return Choice(
            user=None,
            because="the gateway's group is root, which no sandbox runs as: start it in another group",
        )
    return Choice(user=gateway, because="the gateway's own user")


def _root_owned(spec: SandboxSpec) -> Choice:
    # As root it would be the host's root that writes there; any other user could not write at all.
    who = spec.user or NOBODY
    return Choice(
        user=None,
        because=f"the workspace {spec.workspace} belongs to root, and no sandbox runs as root: "
        f"chown -R {who.uid}:{who.gid} {shlex.quote(spec.workspace)}",
    )
