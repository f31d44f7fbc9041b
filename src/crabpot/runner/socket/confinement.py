"""The second wall of a runner on a socket: what it and all that it starts can read and write, by Landlock.

The checks of the allow-list come before use, and a link that is swapped in between passes them. This wall still holds.
"""

from __future__ import annotations

import hashlib
import os
import posix
import shutil
import sys

from ..core import landlock
from ..core.prctl import forbid_privileges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

# What programs are made of. Homes, /var, /run and /srv are off limits.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc")
_DEVICES = tuple("/dev/" + name for name in "null zero full random urandom tty ptmx pts".split())
_TMP = "/tmp"  # noqa: S108  a folder of the runner's own is made there
NEEDED = (
    "this kernel has no Landlock (Linux 5.19, and a container's filter that lets it through), which keeps what runs "
    "here in the roots: start it with --without-landlock only where a container shows it the roots and nothing else"
)


def is_alone() -> bool:
    """Return whether every visible process is this runner's own: it is pid 1 of a container."""
    return posix.getpid() == 1


def is_possible() -> bool:
    """Return whether this kernel supports it."""
    return landlock.version() >= landlock.OLDEST


def make_private(path: str) -> str:
    """Return the new folder for temporary files of the runner at `path`; OSError if it cannot be ours."""
    if is_alone():
        return _TMP
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    folder = "%s/crabpot-runner-%d-%s" % (_TMP, posix.getuid(), digest)
    # What the previous runner left. Never through a link: it would be somebody else's, and mkdir then fails.
    shutil.rmtree(folder, ignore_errors=True)
    posix.mkdir(folder, 0o700)
    return folder


def enclose(roots: Iterable[bytes], private: str, programs: Iterable[bytes], *, run_own: bool) -> None:
    """Build the wall, for good. `run_own`: what lies in the roots may be run, since a shell could anyway."""
    forbid_privileges()
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    read = (*_SYSTEM, own, sys.prefix, sys.base_prefix, *(os.fsdecode(os.path.realpath(one)) for one in programs))
    written = (*(os.fsdecode(root) for root in roots), private)
    landlock.confine((*written, *_DEVICES), readable=read, run_written=run_own)
