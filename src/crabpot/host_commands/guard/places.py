"""Work out the view of a guarded command: which paths of this machine it sees, may write, and must not see."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from typing import TYPE_CHECKING

import crabpot.runner
from crabpot.decide import known_programs
from crabpot.errors import HostRefused
from crabpot.host_commands.guard.view import PRIVATE, Mount, View, outermost
from crabpot.spec import hardening
from crabpot.spec.binds import expand, is_under
from crabpot.spec.grants import NAMED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crabpot.decide.elevation import ElevationRule
    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import SandboxSpec

# Where the sockets of the host's services are, including the user's own bus.
_RUN = ("/run", "/var/run", "/run/user")
# Each line has seven columns, and an eighth if the socket has a name.
_UNIX_SOCKETS, _UNNAMED = "/proc/net/unix", 7
_DOCKER_SOCKETS = ("/run/docker.sock", "/var/run/docker.sock")
# What root could write in /proc without any capability.
_FIXED = (*hardening.READ_ONLY_PROC, *hardening.MASKED_PROC, "/proc/dynamic_debug")

# What the guard's own runner needs to start.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(crabpot.runner.__file__)))


def view(  # noqa: PLR0913  everything it depends on
    argv: tuple[str, ...],
    rule: ElevationRule,
    spec: SandboxSpec,
    around: Surroundings,
    *,
    env: Mapping[str, str],
    programs: Iterable[str],
) -> View:
    """Return the view of one command. `programs` are the folders of the PATH, visible wherever they are."""
    needs = known_programs.needs(argv)
    credentials = (*needs.credentials, *rule.credentials)
    wanted = [*needs.shows, *_shown(credentials, around, env)]
    shows = [place for path in wanted if (place := _find(expand(path, around.home))) is not None]
    resolving, secrets = _Resolving(), (*_RUN, *around.secrets())
    hidden = outermost(filter(None, map(resolving.find, secrets)))
    hides = tuple(place for place in hidden if place not in shows)
    writes = [*map(_must_find, spec.writes), *_granted(rule.writes, around)]
    writes += [place for path in needs.writes if (place := _find(expand(path, around.home))) is not None]
    sockets = any(_has_socket(place.path) for place in shows)
    if sockets:
        kept = [place.path for place in (*shows, *writes, *hides)]
        hides += tuple(one for one in _listening() if not _within(one.path, (*PRIVATE, *kept)))
    covered = [*PRIVATE, *(place.path for place in hides)]
    own = [
        place
        for path in (_PACKAGE, sys.prefix, sys.base_prefix, *programs, *_names())
        if (place := _covered(path, covered)) is not None
    ]
    every = outermost([*own, *shows])
    return View(
        hides=hides,
        shows=every,
        readable=(*_apart_from(secrets, resolving), *(place.path for place in every)),
        owner=_owner(spec.workspace) if os.geteuid() == 0 else None,
        writes=outermost(writes),
        sockets=sockets,
        network=needs.network,
        root=os.geteuid() == 0,
        fixed=tuple(path for path in _FIXED if os.path.exists(path)),
    )


class _Resolving:
    """Resolves paths for one view, each once: the hundreds of secrets of a few homes share their folders.

    Each look at the file system lets another thread have the interpreter, and on a busy gateway waits to get it back.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {"/": "/"}

    def resolved(self, path: str) -> str:
        """Return a path as it resolves, as `os.path.realpath` does."""
        if path not in self._known:
            self._known[path] = self._resolve(path)
        return self._known[path]

    def _resolve(self, path: str) -> str:
        folder, name = os.path.split(path)
        # A link may lead anywhere, and `..` is the folder above where one leads.
        if not os.path.isabs(folder) or name in ("", ".", "..") or os.path.islink(path):
            return os.path.realpath(path)
        return os.path.join(self.resolved(folder), name)

    def find(self, path: str) -> Mount | None:
        """Return a path resolved, or None if it does not exist."""
        return _mount(self.resolved(path))


def _apart_from(secrets: Iterable[str], resolving: _Resolving) -> list[str]:
    """List all folders and files of the host that are not secret and contain no secret, existing or future."""
    kept = {form for path in secrets for form in (os.path.normpath(path), resolving.resolved(path))}
    holding = {above for path in kept for above in _above(path)}
    found: list[str] = []
    todo = ["/"]
    while todo:
        folder = todo.pop()
        if folder not in holding:
            found.append(folder)
            continue
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                # A link's target is readable at its own path, or not at all.
                if entry.path not in kept and not entry.is_symlink():
                    (todo if entry.is_dir(follow_symlinks=False) else found).append(entry.path)
    return found


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _owner(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_uid, found.st_gid


def _shown(credentials: Iterable[str], around: Surroundings, env: Mapping[str, str]) -> Iterator[str]:
    for one in credentials:
        yield from (f"{around.home}/{name}" for name in NAMED[one]) if one in NAMED else (one,)
        if one == "ssh" and env.get("SSH_AUTH_SOCK"):
            yield env["SSH_AUTH_SOCK"]
        if one == "docker":
            yield from (*around.runtime_sockets, *_DOCKER_SOCKETS)


def _granted(paths: Iterable[str], around: Surroundings) -> Iterator[Mount]:
    for path in paths:
        place = _find(expand(path, around.home))
        if place is None:
            raise HostRefused("not_found", f"{path}, which the pattern's `writes` names, does not exist")
        yield place


def _names() -> tuple[str, ...]:
    """List the file for looking up host names; it is often a link into /run."""
    return (os.path.realpath("/etc/resolv.conf"),)


def _covered(path: str, covered: Iterable[str]) -> Mount | None:
    place = _find(path)
    return place if place is not None and _within(place.path, covered) else None


def _within(path: str, trees: Iterable[str]) -> bool:
    return any(path == tree or is_under(path, tree) for tree in trees)


def _find(path: str) -> Mount | None:
    """Return a path resolved, or None if it does not exist."""
    return _mount(os.path.realpath(path))


def _mount(real: str) -> Mount | None:
    try:
        return Mount(path=real, folder=stat.S_ISDIR(os.stat(real).st_mode))
    except OSError:
        return None


def _must_find(path: str) -> Mount:
    place = _find(path)
    if place is None:
        raise HostRefused("not_found", f"{path}, which the agent may write, does not exist")
    return place


def _listening() -> Iterator[Mount]:
    """List the socket files of this machine that a process holds, wherever they are."""
    with open(_UNIX_SOCKETS, encoding="utf-8", errors="surrogateescape") as lines:
        paths = {columns[-1].rstrip("\n") for line in lines if len(columns := line.split(maxsplit=7)) > _UNNAMED}
    for path in sorted(path for path in paths if path.startswith("/")):
        place = _find(path)
        if place is not None and _is_socket(place.path):
            yield place


def _is_socket(path: str) -> bool:
    return stat.S_ISSOCK(os.stat(path).st_mode)


def _has_socket(path: str) -> bool:
    """Return whether a path is a socket, or a folder that directly contains one."""
    try:
        if _is_socket(path):
            return True
        with os.scandir(path) as entries:
            return any(stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode) for entry in entries)
    except OSError:
        return False
