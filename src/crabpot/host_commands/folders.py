"""Map a command's working folder inside to the host's own, held open from the request to the start."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.errors import HostRefused
from crabpot.runner.files.beneath import Anchor, Opener
from crabpot.spec import hardening
from crabpot.spec.binds import is_under, normal
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.spec.spec import SandboxSpec

_HELD = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder of the host, held open: whatever takes its name later, `fd` is the folder that was shown."""

    inside: str
    path: str
    root: str
    """The folder of the host that is mounted inside and contains this one."""
    dev: int
    ino: int
    fd: int
    temporary: bool = False
    """Whether it goes with the plan."""

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form that a request and a lease store."""
        return {"path": self.path, "dev": self.dev, "ino": self.ino}

    @property
    def entry(self) -> str:
        """A path to the held folder itself, for a process that inherits our descriptors."""
        return f"/proc/self/fd/{self.fd}"

    def close(self) -> None:
        """Close the descriptor, and remove the folder if it was made for this command; call it once."""
        os.close(self.fd)
        if self.temporary:
            remove_tree(self.path)


def hold(spec: SandboxSpec, cwd: str | None, *, temporary: bool = False) -> Folder:
    """Open the host's folder for the one inside, beneath its mount, and hold it."""
    inside = normal(os.path.join(spec.workspace_at, cwd or ""))
    target, source = _mounted(spec, inside)
    relative = inside[len(target) :].strip("/")
    try:
        root = os.open(source, _HELD | os.O_NOFOLLOW)
    except OSError as error:
        raise HostRefused("not_found", f"{source}, which is {target} inside: {error.strerror}") from None
    try:
        # Links are resolved as in the sandbox: an absolute one is relative to the inside, and none leads out.
        anchor = Anchor(os.fsencode(target), root, confined=True)
        fd = Opener().open(anchor, os.fsencode(relative), _HELD)
    except OSError as error:
        raise _refused(inside, target, error) from None
    finally:
        os.close(root)
    found = os.fstat(fd)
    path = os.readlink(f"/proc/self/fd/{fd}")
    return Folder(inside=inside, path=path, root=source, dev=found.st_dev, ino=found.st_ino, fd=fd, temporary=temporary)


def check(folder: Folder) -> None:
    """Refuse a folder that is no longer where it was shown."""
    try:
        found = os.stat(folder.path, follow_symlinks=False)
    except OSError:
        found = None
    if found is None or (found.st_dev, found.st_ino) != (folder.dev, folder.ino):
        raise HostRefused("conflict", f"{folder.path} was replaced after it was shown; ask again")


def _mounted(spec: SandboxSpec, inside: str) -> tuple[str, str]:
    found = [(target, source) for target, source in _mounts(spec) if inside == target or is_under(inside, target)]
    if not found:
        shown = ", ".join(target for target, _ in _mounts(spec))
        raise HostRefused("outside", f"{inside} is not on the host; a command starts there in one of: {shown}")
    return max(found, key=lambda one: len(one[0]))


def _mounts(spec: SandboxSpec) -> Iterator[tuple[str, str]]:
    yield spec.workspace_at, spec.workspace
    if spec.agent_workspace is not None:
        yield hardening.AGENT_WORKSPACE, spec.agent_workspace
    yield from ((mount.target, mount.source) for mount in spec.mounts)


def _refused(inside: str, target: str, error: OSError) -> HostRefused:
    if error.errno == errno.EXDEV:
        return HostRefused("outside", f"{inside} leads out of {target} through a link, which is not followed")
    return HostRefused("not_found", f"{inside}: {error.strerror}")
