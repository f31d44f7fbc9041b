"""A runner in a small container of its own, listening: what the `socket` backend connects to."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import crabpot.runner

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOBODY = 65534
_PATIENCE_S = 60.0
_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True, kw_only=True)
class Started:
    """Where it listens, and the host's name of its only root, which is /workspace inside."""

    path: str
    workspace: Path
    pid: int


@contextmanager
def runner_on_socket(*allow: str) -> Iterator[Started]:
    """Start one as nobody special, as pid 1 of its own namespaces, with no network."""
    with tempfile.TemporaryDirectory(prefix="crabpot-socket-") as folder:
        os.chmod(folder, 0o755)
        workspace, run = Path(folder, "workspace"), Path(folder, "run")
        shutil.copytree(
            Path(crabpot.runner.__file__).parent, f"{folder}/runner", ignore=shutil.ignore_patterns("__pycache__")
        )
        for made in (workspace, run):
            made.mkdir()
            if os.geteuid() == 0:
                os.chown(made, _NOBODY, _NOBODY)
        started = subprocess.Popen(
            [*_walls(folder), _PYTHON, "-I", "-S", "/opt/crabpot/runner", "--socket", "/run/clawfactory/runner.sock",
             "--root", "/workspace", "--allow", *allow],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            user=_NOBODY if os.geteuid() == 0 else None, group=_NOBODY if os.geteuid() == 0 else None,
            extra_groups=[] if os.geteuid() == 0 else None,
        )  # fmt: skip
        try:
            _await_socket(started, run / "runner.sock")
            yield Started(path=str(run / "runner.sock"), workspace=workspace, pid=started.pid)
        finally:
            started.kill()
            started.communicate()


def _walls(folder: str) -> list[str]:
    bwrap = shutil.which("bwrap") or "bwrap"
    links = [word for name in ("bin", "lib", "lib64", "sbin") for word in ("--symlink", f"usr/{name}", f"/{name}")]
    return [
        *(bwrap, "--unshare-all", "--die-with-parent", "--as-pid-1", "--new-session", "--clearenv"),
        *("--ro-bind", "/usr", "/usr", *links, "--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache"),
        *(
            "--ro-bind",
            "/etc/alternatives",
            "/etc/alternatives",
            "--ro-bind",
            f"{folder}/runner",
            "/opt/crabpot/runner",
        ),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", f"{folder}/workspace", "/workspace"),
        *("--bind", f"{folder}/run", "/run/clawfactory", "--"),
    ]


def _listens(path: Path) -> bool:
    """Return whether somebody listens there: the file alone appears a moment earlier."""
    with socket.socket(socket.AF_UNIX) as trial, suppress(OSError):
        trial.connect(str(path))
        return True
    return False


def _await_socket(started: subprocess.Popen[str], path: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not _listens(path):
        assert started.stderr is not None
        assert started.poll() is None, started.stderr.read()
        assert time.monotonic() < deadline, "it never listened"
        time.sleep(0.01)
