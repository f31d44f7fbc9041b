"""Find what well-known programs would execute from the folder they start in, by the folder's content."""

from __future__ import annotations

import hashlib
import json
import os
import stat

from crabpot.decide.known_programs import EXECUTES, SHELLS_AND_INTERPRETERS, USES_GIT
from crabpot.runner.files.beneath import Anchor, Opener

_LARGEST, _LARGEST_TOLD = 256 * 1024, 4 * 1024 * 1024
_MOST_SHOWN = 20


def executes(argv: tuple[str, ...], folder: int) -> tuple[str, ...]:
    """List what a known program would run or obey from the folder."""
    obeyed = [name for name in EXECUTES.get(argv[0], ()) if _is_there(name, folder)]
    found = [f"{name} ({argv[0]} runs what it says; {_content(name, folder)})" for name in obeyed]
    if argv[0] in USES_GIT:
        found.append("hooks, filters, aliases and other programs that the repository's own .git names")
    if "package.json" in EXECUTES.get(argv[0], ()):
        found += [f"package.json script {line}" for line in _scripts(folder)]
    bare = argv[0].rstrip("0123456789.") or argv[0]
    if bare in SHELLS_AND_INTERPRETERS:
        files = [word for word in argv[1:] if not word.startswith("-") and _is_there(word, folder)]
        found += [f"{name} (a file of the folder, run as a program; {_content(name, folder)})" for name in files]
    return tuple(found)


def _is_there(name: str, folder: int) -> bool:
    if name.startswith("/") or "\0" in name:
        return False
    try:
        os.close(_open(name, folder, os.O_PATH | os.O_NOFOLLOW))
    except OSError:
        return False
    return True


def _open(name: str, folder: int, flags: int) -> int:
    """Open a file of the agent's beneath the folder: no link leads out, and no pipe blocks the gateway."""
    anchor = Anchor(b"/", folder, confined=True)
    unblocked = 0 if flags & os.O_PATH else os.O_NONBLOCK
    return Opener().open(anchor, os.fsencode(name), flags | unblocked | os.O_CLOEXEC)


def _content(name: str, folder: int) -> str:
    """Return a description that changes whenever the file does: an answer is valid for one content only."""
    try:
        fd = _open(name, folder, os.O_RDONLY)
    except OSError:
        return "not readable"
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST_TOLD:
            return f"sha256 {hashlib.sha256(_read(fd, _LARGEST_TOLD)).hexdigest()[:16]}"
    except OSError:
        return "not readable"
    finally:
        os.close(fd)
    # The agent can set a file's mtime, but not its ctime.
    return f"inode {found.st_ino}, changed {found.st_ctime_ns}"


def _read(fd: int, most: int) -> bytes:
    """Read a file that may be growing, up to a limit."""
    pieces, size = [], 0
    while size <= most and (piece := os.read(fd, 1 << 16)):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _scripts(folder: int) -> list[str]:
    """Return the scripts of a package.json, which may contain anything."""
    try:
        fd = _open("package.json", folder, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return []
        scripts = json.loads(_read(fd, _LARGEST)).get("scripts", {})
        return [f"{name}: {text}" for name, text in list(scripts.items())[:_MOST_SHOWN]]
    except (OSError, ValueError, AttributeError, RecursionError):
        return []
    finally:
        os.close(fd)
