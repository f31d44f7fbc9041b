"""Open files that an agent may have written or replaced: never stuck, never led elsewhere, never too much.

A FIFO blocks whoever opens it, a lease on a file does so for as long as the kernel allows, a link leads elsewhere, and
a sparse file of a few bytes on disk fills the memory of whoever reads it.
"""

from __future__ import annotations

import errno
import os
import stat

# O_NONBLOCK: neither a FIFO without a writer nor a lease that somebody holds makes us wait.
CAREFULLY = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1024 * 1024


def open_regular(path: str, *, folder: int | None = None, follow: bool = False) -> int:
    """Open a regular file to read it; OSError on a FIFO, a device, a folder or a link.

    With `folder`, a descriptor, `path` is relative to it and stays beneath it: no part of it may be a link. `follow`
    is for a file that a person named, who may have meant a link: the last part of the path is then followed.
    """
    if folder is None:
        return _checked(os.open(path, CAREFULLY & ~os.O_NOFOLLOW if follow else CAREFULLY), path)
    *parts, name = path.split("/")
    if not name or {"", ".", ".."} & {*parts, name}:
        raise OSError(errno.EINVAL, "does not stay beneath its folder", path)
    at = os.dup(folder)
    try:
        for part in parts:
            inner = os.open(part, _STEP, dir_fd=at)
            os.close(at)
            at = inner
        return _checked(os.open(name, CAREFULLY, dir_fd=at), path)
    finally:
        os.close(at)


def read_regular(path: str, *, most: int, folder: int | None = None, follow: bool = False) -> bytes:
    """Return the content of a regular file; OSError as above, and for one of more than `most` bytes."""
    handle = open_regular(path, folder=folder, follow=follow)
    try:
        return read_handle(handle, path, most=most)
    finally:
        os.close(handle)


def read_handle(handle: int, shown: str, *, most: int) -> bytes:
    """Return the content of an open file; OSError if that is more than `most` bytes."""
    too_large = OSError(errno.EFBIG, f"is larger than {most} bytes", shown)
    if os.fstat(handle).st_size > most:
        raise too_large
    content = bytearray()
    # It may grow while it is read.
    while piece := os.read(handle, min(_PIECE, most + 1 - len(content))):
        content += piece
        if len(content) > most:
            raise too_large
    return bytes(content)


def _checked(handle: int, path: str) -> int:
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "is not a regular file", path)
