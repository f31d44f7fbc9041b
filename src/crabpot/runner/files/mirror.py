"""A folder that two machines have: sent whole to where the sandbox is, and what changed there sent back."""

from __future__ import annotations

import os
import stat
import time

from .records import LARGEST_PIECE, Broken, header, put, write, write_content
from .taking import DEEPEST, FOLDER, LONGEST_PATH, Taking, mode_of, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

    Seen = dict[str, tuple[int, ...]]

# A file that changes again within one tick of the kernel's clock looks the same: it is sent once more.
_TICK_NS = 20_000_000
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def serve(root: str, reading: BinaryIO, writing: BinaryIO) -> int:
    """Be the end beside the sandbox: take the whole folder, then send what changed whenever that is asked for."""
    top = os.open(root, FOLDER)
    Taking(top).take(reading)
    # Older than a tick by the time of the first look, so that nothing is sent that only just came.
    time.sleep(2 * _TICK_NS / 1e9)
    known = look(top)
    put(writing, {"kind": "end"})
    while True:
        try:
            if header(reading).get("kind") != "changes":
                return 1
            known = send(writing, top, known)
        except (EOFError, ConnectionError):
            return 0
        except Broken:
            return 1


def look(top: int) -> Seen:
    """Return what is in a folder, what holds something before what it holds, and what tells it from the next state."""
    found: Seen = {}
    _look(top, "", found, 0)
    return found


def send(writing: BinaryIO, top: int, known: Seen) -> Seen:
    """Send what is not as it is known to be, then an end; return what the other end has then."""
    began = time.time_ns()
    try:
        now = look(top)
    except Broken as error:
        put(writing, {"kind": "failed", "why": str(error)})
        raise
    sent = dict(now)
    for path, seen in now.items():
        failed = known.get(path) != seen and not _send_one(writing, top, path, seen[0])
        if failed or (stat.S_ISREG(seen[0]) and seen[-1] > began - _TICK_NS):
            sent[path] = ()
    for path in known:
        if path not in now:
            write(writing, {"kind": "gone", "path": path})
    put(writing, {"kind": "end"})
    return sent


def _look(folder: int, above: str, found: Seen, depth: int) -> None:
    if depth >= DEEPEST:
        raise Broken(f"what was written is more than {DEEPEST} folders deep")
    for name in sorted(os.listdir(folder)):
        path = above + name
        mode = mode_of(folder, name)
        if stat.S_ISDIR(mode):
            found[path] = (mode,)
            try:
                inner = _open_own(folder, name, FOLDER)
            except OSError:
                continue
            try:
                _look(inner, f"{path}/", found, depth + 1)
            finally:
                os.close(inner)
        elif (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) and len(os.fsencode(path)) < LONGEST_PATH:
            try:
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            found[path] = (facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def _send_one(writing: BinaryIO, top: int, path: str, mode: int) -> bool:
    """Send what is at a path now; return whether it is still what was seen there."""
    *above, name = path.split("/")
    try:
        folder = step(top, above)
    except OSError:
        return False
    try:
        record: dict[str, Any] = {"path": path, "mode": stat.S_IMODE(mode)}
        if stat.S_ISDIR(mode):
            write(writing, {**record, "kind": "folder"})
            return True
        if stat.S_ISLNK(mode):
            target = os.readlink(name, dir_fd=folder)
            write(writing, {**record, "kind": "link", "target": target})
            return True
        handle = _open_own(folder, name, _FILE)
    except OSError:
        return False
    finally:
        os.close(folder)
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return False
        write(writing, {**record, "kind": "file", "mtime_ns": facts.st_mtime_ns})
        write_content(writing, _content(handle))
        return True
    finally:
        os.close(handle)


def _content(handle: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(handle, LARGEST_PIECE)
        except OSError:
            # What cannot be read any more ends here, and is another file at the next look.
            return
        if not piece:
            return
        yield piece


def _open_own(folder: int, name: str, flags: int) -> int:
    """Open what this user owns, also where the permission to read it was taken away."""
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = stat.S_IMODE(os.fstat(held).st_mode)
        os.chmod(f"/proc/self/fd/{held}", mode | 0o700)
        try:
            return os.open(f"/proc/self/fd/{held}", flags & ~os.O_NOFOLLOW)
        finally:
            os.chmod(f"/proc/self/fd/{held}", mode)
    finally:
        os.close(held)
