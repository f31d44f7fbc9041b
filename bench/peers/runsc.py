"""gVisor: `runsc do`, a kernel of its own for one command."""

from __future__ import annotations

import shutil
import subprocess
import tempfile

NAME = "gVisor, runsc do"
PACKAGES: tuple[str, ...] = ()
NPM: tuple[str, ...] = ()
BEYOND = (
    "the command's system calls are answered by a kernel in user space, so that a hole in the host's is not its own. "
    "Not in the figures: limits, a folder of its own, policy, audit"
)


class Adapter:
    """Keeps the folder of its containers."""

    def start(self) -> str:
        """Find it, and see that it runs here."""
        if shutil.which("runsc") is None:
            raise OSError("runsc is not installed")
        self.folder = tempfile.mkdtemp(prefix="crabpot-bench-")
        try:
            self.open()
        except OSError:
            self.stop()
            raise
        shown = subprocess.run(["runsc", "--version"], capture_output=True, text=True, check=True).stdout
        return shown.splitlines()[0]

    def open(self) -> None:
        """Run a sandbox to the end of its command."""
        words = ["runsc", "--root", self.folder, "--network=none", "--ignore-cgroups", "--rootless", "do", "true"]
        # Pipes: run by root it gives what it has as standard input to nobody, and with it the machine's /dev/null.
        done = subprocess.run(
            words, input=b"", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )
        if done.returncode:
            raise OSError((done.stdout.decode(errors="replace").strip().splitlines() or ["runsc failed"])[-1][:300])

    def exec(self) -> None:
        """Do the same: there is no sandbox to run a command in."""
        self.open()

    def stop(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
