"""The identity of a file beyond its name: enough to tell whether it is still the one that a person agreed to."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import Any

from crabpot.errors import HostRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A program's resolved path, and the file found there."""

    path: str
    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    sha256: str

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form that a request and a lease store."""
        return {name: getattr(self, name) for name in self.__slots__}


def identify(path: str) -> Identity:
    """Return the identity of a program; `path` has its links resolved."""
    try:
        # O_NONBLOCK: a pipe in its place must not block the gateway.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise HostRefused("not_found", f"{path} cannot be read, so a replacement would go unnoticed: {error}") from None
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise HostRefused("not_found", f"{path} is not a regular file")
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Identity(
        path=path,
        dev=found.st_dev,
        ino=found.st_ino,
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        ctime_ns=found.st_ctime_ns,
        sha256=digest,
    )
