"""Write Crabpot's own files: whole or not at all, and readable by nobody else."""

from __future__ import annotations

import os


def write_whole(path: str, text: str, *, like: os.stat_result | None = None) -> None:
    """Replace a file in one step. The new one is its owner's alone, or has mode and, as root, owner of `like`."""
    draft = f"{path}.{os.urandom(4).hex()}"
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as stream:
            if like is not None:
                os.fchmod(handle, like.st_mode & 0o777)
                if os.geteuid() == 0:
                    os.fchown(handle, like.st_uid, like.st_gid)
            stream.write(text)
            stream.flush()
            os.fsync(handle)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
