"""A folder of git's own programs in which those that serve a repository refuse to serve an agent's.

A remote may be a path. Git then starts the other side itself, with the configuration and hooks of the repository
there and without the environment that neutralises them here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil

from crabpot.errors import HostRefused
from crabpot.ownership import make_own

FOLDERS = "CRABPOT_AGENT_FOLDERS"

_SERVING = ("git-receive-pack", "git-upload-pack", "git-upload-archive")

_WRAPPER = """#!/bin/sh
for last; do :; done
set -f
IFS='
'
for form in "$last" "$last.git" "$last/.git"; do
    real=$(realpath -m -- "$form") || exit 128
    for root in ${folders}; do
        case $real/ in
            "$root"/*)
                echo "crabpot: $real lies in $root, which an agent writes: its hooks would run" >&2
                exit 128
        esac
    done
done
exec {program} "$@"
"""


def prepare(state: str, exec_path: str) -> str:
    """Give the folder for git's programs that lie in `exec_path`, made if it is not there."""
    if not os.path.isdir(exec_path):
        raise HostRefused("not_found", f"git says that its programs lie in {exec_path}, and they do not")
    names = sorted(os.listdir(exec_path))
    digest = hashlib.sha256("\0".join([_WRAPPER, exec_path, *names]).encode("utf-8", "surrogateescape")).hexdigest()[
        :32
    ]
    home = f"{state}/git"
    make_own(home, 0o700)
    folder = f"{home}/{digest}"
    if not os.path.isdir(folder):
        made = f"{home}/making-{os.urandom(8).hex()}"
        os.mkdir(made, 0o700)
        try:
            _fill(made, exec_path, names)
            with contextlib.suppress(OSError):  # Another gateway was faster; its folder is the same.
                os.rename(made, folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder


def _fill(folder: str, exec_path: str, names: list[str]) -> None:
    for name in names:
        if name not in _SERVING:
            os.symlink(f"{exec_path}/{name}", f"{folder}/{name}")
    for name in _SERVING:
        with open(f"{folder}/{name}", "x", encoding="utf-8") as file:
            program = shlex.quote(f"{exec_path}/{name}")
            file.write(_WRAPPER.replace("{folders}", FOLDERS).replace("{program}", program))
        os.chmod(f"{folder}/{name}", 0o700)
