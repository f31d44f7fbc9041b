"""Git on the host, as the test itself and without anybody's configuration."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

AS = ("-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "init.defaultBranch=main")
QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nowhere", "PATH": os.environ["PATH"]}


def host_git(*words: str | Path, cwd: str | Path = "/") -> str:
    """Run git on the host, as the test itself."""
    done = subprocess.run(
        ["git", *AS, *map(str, words)], cwd=cwd, env=QUIET, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
