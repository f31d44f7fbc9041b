"""Host files and folders held open from the check to the mount: what was checked is what the sandbox gets."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from typing import TYPE_CHECKING, NamedTuple, Self

from crabpot.errors import SandboxUnavailable
from crabpot.frozen import dataclass
from crabpot.spec import hardening
from crabpot.spec.spec import UPPER, WORK
from crabpot.state.ownership import make_own

if TYPE_CHECKING:
    from crabpot.spec.spec import Access, SandboxSpec, User


_PRIVATE = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A host file or folder held open, so that what was checked is what is mounted."""

    fd: int
    path: str
    target: str
    access: Access
    folder: bool = True
    device: int = 0
    inode: int = 0


class Executable(NamedTuple):
    """A program held open. Its path may lead through a private home that the user it runs as cannot enter."""

    fd: int
    path: str
    libraries_fd: int | None = None


class Fds:
    """Descriptors that are closed together, whatever happens, and none of them twice."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            os.close(self._open.pop())

    def add(self, fd: int) -> int:
        """Take ownership of one."""
        self._open.append(fd)
        return fd

    def open(self, path: str, flags: int) -> int:
        """Open a file."""
        return self.add(os.open(path, flags | os.O_CLOEXEC))

    def pipe(self) -> tuple[int, int]:
        """Open a pipe; return its read end and its write end."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        return self.add(reader), self.add(writer)

    def close(self, fd: int) -> None:
        """Close one now."""
        self._open.remove(fd)
        os.close(fd)

    def release(self, fd: int) -> int:
        """Hand one over to somebody who will close it."""
        self._open.remove(fd)
        return fd


def hold_all(spec: SandboxSpec, user: User, fds: Fds) -> list[Held]:
    """Open all host paths that the spec needs; SandboxUnavailable names what is missing or was swapped."""
    kept = spec.kept
    if kept is None:
        found = [hold(spec.workspace, spec.workspace_at, "rw", fds)]
    else:
        found = [_kept(kept, spec.workspace_at, user, fds)]
    return found + _hold_others(spec, user, fds)


def hold_overlay(spec: SandboxSpec, user: User, fds: Fds) -> list[Held]:
    """Do the same for a folder under review that is mounted below a layer: the folder is only read."""
    assert spec.layer is not None
    for name in (UPPER, WORK):
        _kept(f"{spec.layer}/{name}", hardening.LAYER, user, fds)
    found = [hold(spec.layer, hardening.LAYER, "rw", fds), hold(spec.workspace, spec.workspace_at, "ro", fds)]
    return found + _hold_others(spec, user, fds)


def _hold_others(spec: SandboxSpec, user: User, fds: Fds) -> list[Held]:
    """Open the host paths that it sees beside its workspace."""
    found = []
    if spec.home is not None:
        found.append(_kept(own_home(spec.home, user), hardening.HOME, user, fds))
    if spec.agent_workspace is not None:
        found.append(hold(spec.agent_workspace, hardening.AGENT_WORKSPACE, "ro", fds))
    found.extend(hold(one.source, one.target, one.access, fds) for one in (*spec.mounts, *spec.certificates))
    return found


def hold(path: str, target: str, access: Access, fds: Fds) -> Held:
    """Open one by its resolved path, and refuse it if the path now leads elsewhere."""
    try:
        fd = fds.open(path, os.O_PATH)
    except FileNotFoundError:
        raise SandboxUnavailable(f"{path} does not exist: mkdir -p {shlex.quote(path)}") from None
    except OSError as error:
        raise SandboxUnavailable(f"{path} cannot be opened: {error.strerror}") from None
    # The path was resolved when the spec was made. A folder swapped for a link since then (CVE-2026-44112)
    # shows here, and a later swap has no effect.
    real = os.readlink(f"/proc/self/fd/{fd}")
    if real != path:
        raise SandboxUnavailable(f"{path} now leads to {real}: something in it was replaced by a link")
    found = os.fstat(fd)
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        # A socket of the host (docker.sock, D-Bus, X11) gives away whatever listens on it.
        raise SandboxUnavailable(f"{path} is neither a folder nor a file; sockets and devices are not mounted")
    return Held(
        fd=fd,
        path=path,
        target=target,
        access=access,
        folder=stat.S_ISDIR(found.st_mode),
        device=found.st_dev,
        inode=found.st_ino,
    )


def owner_of(path: str) -> tuple[int, int] | None:
    """Return the uid and gid of a folder, or None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_uid, found.st_gid


def own_home(home: str, user: User) -> str:
    """Return the folder of a private home: a root gateway's sandboxes have several users, and each has its own."""
    return f"{home}.{user.uid}" if os.geteuid() == 0 else home


def _kept(path: str, target: str, user: User, fds: Fds) -> Held:
    """Make Crabpot's own folder for this sandbox, or take the one that an earlier sandbox of this name left."""
    make_own(os.path.dirname(path), 0o711 if os.geteuid() == 0 else _PRIVATE)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, _PRIVATE)
    fd = fds.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    found = os.fstat(fd)
    if os.geteuid() == 0 and (found.st_uid, found.st_gid) != (user.uid, user.gid):
        _change_owner(fd, user)
    elif found.st_uid != user.uid:
        raise SandboxUnavailable(f"{path} belongs to user {found.st_uid}, not to {user.uid}: remove it")
    if stat.S_IMODE(found.st_mode) != _PRIVATE:
        os.chmod(f"/proc/self/fd/{fd}", _PRIVATE)  # The agent owns it, and may have changed that.
    return Held(
        fd=fd,
        path=path,
        target=target,
        access="rw",
        device=found.st_dev,
        inode=found.st_ino,
    )


def _change_owner(fd: int, user: User) -> None:
    """Change the owner of a private folder to its sandbox's user.

    By descriptor and without links: the agent wrote what is in it.
    """
    for _, folders, files, folder in os.fwalk(f"/proc/self/fd/{fd}/.", follow_symlinks=False):
        os.chown(folder, user.uid, user.gid)
        for name in (*folders, *files):
            os.chown(name, user.uid, user.gid, dir_fd=folder, follow_symlinks=False)
