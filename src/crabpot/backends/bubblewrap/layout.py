"""Which parts of the host every sandbox sees, read-only: its programs, and the harmless rest of /etc."""

from __future__ import annotations

import os
import stat

from crabpot.backends.linux import etc
from crabpot.frozen import dataclass
from crabpot.spec import hardening

_PYTHONS = ("/usr/local/bin/python3", "/usr/bin/python3")
_PROGRAMS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What is mounted in place, which links are recreated, which files copied, and what of /proc is covered."""

    mounts: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    copies: tuple[str, ...]
    masked_files: tuple[str, ...]
    masked_folders: tuple[str, ...]
    fixed: tuple[str, ...]


def look(interpreter: str, *more: str) -> Layout:
    """Find out how this host is laid out; `more` is mounted too, where the interpreter is not under /usr."""
    mounts, links = ["/usr", *more], []
    for path in (*_PROGRAMS, etc.ALTERNATIVES, *etc.AUTHORITIES):
        # A merged /usr has links here. bwrap from 0.12 on refuses to mount on a link, and rightly so.
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.exists(path):
            mounts.append(path)
    copies = [etc.LINKER_CACHE] if os.path.isfile(etc.LINKER_CACHE) else []
    for path in (etc.LOCALTIME, etc.OS_RELEASE):
        real = os.path.realpath(path)
        if real.startswith("/usr/"):
            links.append((real, path))
        elif os.path.isfile(real):
            copies.append(path)
    python = next((path for path in _PYTHONS if os.path.exists(path)), interpreter)
    links += [(python, f"{hardening.FALLBACKS}/{name}") for name in ("python", "python3")]
    masked = [(path, _kind(path)) for path in hardening.MASKED_PROC]
    return Layout(
        mounts=tuple(mounts),
        links=tuple(links),
        copies=tuple(copies),
        masked_files=tuple(path for path, kind in masked if kind and kind != stat.S_IFDIR),
        masked_folders=tuple(path for path, kind in masked if kind == stat.S_IFDIR),
        fixed=tuple(path for path in hardening.READ_ONLY_PROC if _kind(path)),
    )


def _kind(path: str) -> int:
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return 0
