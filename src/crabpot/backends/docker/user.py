"""Who a container runs as: decided from the spec, from who the gateway is and who owns the workspace. Never root."""

from __future__ import annotations

import shlex
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.spec import hardening
from crabpot.spec.spec import User

if TYPE_CHECKING:
    from crabpot.spec.spec import SandboxSpec

NOBODY = User(uid=hardening.NOBODY, gid=hardening.NOBODY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A user, or why there is none; and in either case the reason, for a person."""

    user: User | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What a workspace's inode says."""

    uid: int
    gid: int
    mode: int


def choose(spec: SandboxSpec, *, gateway: User, folder: Folder | None, remapped: bool) -> Choice:
    """Decide. `folder` is the rw workspace, None if private or missing; `remapped` says that ids inside are others."""
    if spec.private:
        return _private(spec, gateway, remapped=remapped)
    if remapped:
        return _refused(
            "this engine maps users (rootless, or userns-remap), so the owner of the workspace is root inside, and no "
            'sandbox runs as root: write workspace: "none" or "ro", or use the bubblewrap backend'
        )
    if folder is None:
        return _refused(f"the workspace {spec.workspace} does not exist: mkdir -p {shlex.quote(spec.workspace)}")
    if spec.user is not None:
        return _configured(spec, spec.user, folder)
    if folder.uid == 0:
        who = gateway if gateway.uid and gateway.gid else NOBODY
        return _refused(
            f"the workspace {spec.workspace} belongs to root, and no sandbox runs as root: {_chown(spec, who)}, "
            'or name another owner with user: "uid:gid"'
        )
    # A file of group root gives no membership in it: that group reads what others must not.
    return Choice(user=User(uid=folder.uid, gid=folder.gid or folder.uid), because="the owner of the workspace")


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
