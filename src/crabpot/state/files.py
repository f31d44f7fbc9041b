"""Write Crabpot's own files: whole or not at all, and readable by nobody else."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


def write_whole(path: str, text: str, *, like: os.stat_result | None = None, draft: str | None = None) -> None:
    """Replace a file in one step. The new one is its owner's alone, or has mode and, from root, owner of `like`."""
    with replacing(path, draft=draft) as stream:
        if like is not None:
            os.fchmod(stream.fileno(), like.st_mode & 0o777)
            if os.geteuid() == 0:
                os.fchown(stream.fileno(), like.st_uid, like.st_gid)
        stream.write(text.encode())


@contextmanager
def replacing(path: str, *, draft: str | None = None) -> Iterator[BinaryIO]:
    """Open what takes the place of a file when the context ends well, and is on disk by then.

    `draft` is its path until then, where what a killed process leaves must be found: one that is there is replaced.
    """
    if draft is None:
        draft = f"{path}.{os.urandom(4).hex()}"
    else:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(handle)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
