"""Whom a container runs as: decided from the spec, the gateway's user and the owner of the workspace. Never root."""

from __future__ import annotations

import shlex
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.spec import hardening
from crabpot.spec.spec import User

if TYPE_CHECKING:
    from crabpot.spec.spec import SandboxSpec

# An engine gives a container this many ids.
_LAST = 65_535
NOBODY = User(uid=hardening.NOBODY, gid=hardening.NOBODY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A user, or why there is none; either way the reason, for a person."""

    user: User | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What a workspace's inode says."""

    uid: int
    gid: int
    mode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """An engine's id mapping: the host ids of uid and gid 0 inside; None where that is not known (rootless)."""

    first_ids: tuple[int, int] | None


def choose(spec: SandboxSpec, *, gateway: User, folder: Folder | None, mapping: Mapping | None = None) -> Choice:
    """Choose the user. `folder` is the rw workspace, None if private or missing; `mapping` None: ids are the same."""
    if spec.kept is not None:
        return _private(spec, gateway, remapped=mapping is not None)
    if folder is None:
        return _refused(f"the workspace {spec.workspace} does not exist: mkdir -p {shlex.quote(spec.workspace)}")
    if mapping is not None:
        return _mapped(spec, folder, mapping)
    if spec.user is not None:
        return _configured(spec, spec.user, folder)
    if folder.uid == 0:
        who = gateway if gateway.uid and gateway.gid else NOBODY
        return _refused(
            f"the workspace {spec.workspace} belongs to root, and no sandbox runs as root: {_chown(spec, who)}, "
            'or name another owner with user: "uid:gid"'
        )
    # A file of group root gives no membership in it: that group can read what others must not.
    return Choice(user=User(uid=folder.uid, gid=folder.gid or folder.uid), because="the owner of the workspace")


def outside(user: User, *, gateway: User, mapping: Mapping | None) -> User:
    """Return who must own a private folder on this machine, for a user inside; the gateway itself if none can."""
    if mapping is None:
        return user
    if gateway.uid == 0 and mapping.first_ids is not None:
        return _shifted(user, mapping.first_ids)
    return gateway


def _shifted(user: User, first_ids: tuple[int, int]) -> User:
    return User(uid=first_ids[0] + user.uid, gid=first_ids[1] + user.gid)


def _mapped(spec: SandboxSpec, folder: Folder, mapping: Mapping) -> Choice:
    """Choose the user inside who is the owner of the workspace outside."""
    if mapping.first_ids is None:
        return _refused(
            "this engine is rootless, so its own user is root inside, and no sandbox runs as root: "
            'write workspace: "none" or "ro", or use the bubblewrap backend'
        )
    first_uid, first_gid = mapping.first_ids
    inside = User(uid=folder.uid - first_uid, gid=folder.gid - first_gid)
    if 0 < inside.uid <= _LAST and 0 < inside.gid <= _LAST and spec.user in (None, inside):
        return Choice(user=inside, because="the owner of the workspace, as this engine maps users (userns-remap)")
    wanted = _shifted(spec.user or NOBODY, mapping.first_ids)
    return _refused(
        f"this engine maps users (userns-remap), and the workspace {spec.workspace} belongs to nobody that a sandbox "
        f'can be: {_chown(spec, wanted)}, write workspace: "none" or "ro", or use the bubblewrap backend'
    )


def _private(spec: SandboxSpec, gateway: User, *, remapped: bool) -> Choice:
    if remapped or gateway.uid == 0:
        if spec.user is not None:
            return Choice(user=spec.user, because="as configured")
        why = "this engine maps users" if remapped else "the gateway is root"
        return Choice(user=NOBODY, because=f"nobody: {why} and the workspace is Crabpot's own")
    if spec.user not in (None, gateway):
        own = f"{gateway.uid}:{gateway.gid}"
        return _refused(
            f"the private workspace belongs to {own}, and only a gateway that runs as root can give it to another: "
            f'remove sandbox.user, or write "{own}"'
        )
    if gateway.gid == 0:
        return _refused("the gateway's group is root, which no sandbox runs as: start it in another group")
    return Choice(user=gateway, because="the gateway's own user")


def _configured(spec: SandboxSpec, user: User, folder: Folder) -> Choice:
    bits = stat.S_IWUSR | stat.S_IXUSR
    shift = 0 if user.uid == folder.uid else 3 if user.gid == folder.gid else 6
    if (folder.mode << shift) & bits != bits:
        owner = f', or user: "{folder.uid}:{folder.gid}"' if folder.uid and folder.gid else ""
        return _refused(
            f"user {user.uid}:{user.gid} cannot write the workspace {spec.workspace}, which belongs to "
            f"{folder.uid}:{folder.gid}: {_chown(spec, user)}{owner}"
        )
    return Choice(user=user, because="as configured")


def _chown(spec: SandboxSpec, user: User) -> str:
    return f"chown -R {user.uid}:{user.gid} {shlex.quote(spec.workspace)}"


def _refused(because: str) -> Choice:
    return Choice(user=None, because=because)
