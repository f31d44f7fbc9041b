"""nono: Landlock around one command, by its own Python library, which has no program to build first."""

from __future__ import annotations

import importlib.metadata
import shutil
import tempfile
from pathlib import Path
from typing import Any

NAME = "nono"
PACKAGES: tuple[str, ...] = ("nono-py==0.16.0",)
NPM: tuple[str, ...] = ()
BEYOND = (
    "runs on macOS as well, and works on the user's own files in place. Measured by its Python library, which forks "
    "its caller. Not in the figures: the start of its command line, namespaces, limits, audit"
)


class Adapter:
    """Keeps a folder that commands may write, and what they are allowed."""

    def start(self) -> str:
        """Allow the system's programs and one folder, block the network, and see a file elsewhere refused."""
        import nono_py  # type: ignore[import-not-found]  # noqa: PLC0415  the peer's own interpreter has it

        self.run: Any = nono_py.sandboxed_exec
        self.folder = tempfile.mkdtemp(prefix="crabpot-bench-")
        self.allowed = nono_py.CapabilitySet()
        for path in ("/usr", "/bin", "/lib", "/lib64"):
            if Path(path).is_dir():
                self.allowed.allow_path(path, nono_py.AccessMode.READ)
        self.allowed.allow_path(self.folder, nono_py.AccessMode.READ_WRITE)
        self.allowed.block_network()
        if self.run(self.allowed, ["cat", "/etc/passwd"], cwd=self.folder).exit_code == 0:
            raise OSError("it confines nothing here")
        self.open()
        return importlib.metadata.version("nono-py")

    def open(self) -> None:
        """Run a sandbox to the end of its command."""
        done = self.run(self.allowed, ["true"], cwd=self.folder)
        if done.exit_code:
            raise OSError((done.stderr.decode(errors="replace").strip().splitlines() or ["nono failed"])[0])

    def exec(self) -> None:
        """Do the same: there is no sandbox to run a command in."""
        self.open()

    def stop(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
