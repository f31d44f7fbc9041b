"""Bare bubblewrap: a fresh one for every call, with the fewest walls that can be called a sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess

NAME = "bare bwrap"
PACKAGES: tuple[str, ...] = ()
NPM: tuple[str, ...] = ()
BEYOND = (
    "a fresh sandbox for every command. Not in the figures: system call filter, limits, a user of its own, policy, "
    "audit"
)

_MOUNTS = ("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # noqa: S108  its own


def command(program: str, *inside: str) -> list[str]:
    """Return the smallest sandbox that has the host's programs in it."""
    links = [part for name in ("bin", "lib", "lib64") for part in ("--symlink", f"usr/{name}", f"/{name}")]
    return [program, "--unshare-all", "--die-with-parent", *links, *_MOUNTS, "--", *inside]


class Adapter:
    """Keeps nothing."""

    def start(self) -> str:
        """Find it."""
        self.program = os.environ.get("CRABPOT_BENCH_BWRAP") or shutil.which("bwrap")
        if self.program is None:
            raise OSError("bwrap is not installed")
        self.open()
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def open(self) -> None:
        """Run a sandbox to the end of its command."""
        assert self.program is not None
        done = subprocess.run(
            command(self.program, "/bin/sh", "-c", "true"),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode:
            raise OSError(done.stderr.decode(errors="replace").strip())

    def exec(self) -> None:
        """Do the same: there is no sandbox to run a command in."""
        self.open()

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""
