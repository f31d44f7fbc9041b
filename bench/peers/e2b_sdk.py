"""E2B's own SDK, led to Crabpot's E2B door: what a program written for E2B pays here."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from typing import Any

NAME = "E2B's SDK, at crabpot e2b"
PACKAGES: tuple[str, ...] = ("e2b==2.63.0",)
NPM: tuple[str, ...] = ()
BEYOND = (
    "the same program runs in microVMs of E2B's cloud. Here every call is Crabpot's, with policy and audit, through "
    "HTTP and the SDK's client"
)

_CONTENT = ("x" * 63 + "\n") * 64


class Adapter:
    """A gateway with one sandbox that is kept, and one for each opening."""

    def start(self) -> str:
        """Start the gateway, and the sandbox that is kept."""
        self.state = tempfile.mkdtemp(prefix="crabpot-bench-")
        self.crabpot = [*json.loads(os.environ["CRABPOT_BENCH_CRABPOT"]), "--state", self.state]
        try:
            os.environ.update(self._environment())
            self.sdk: Any = importlib.import_module("e2b").Sandbox
            self.kept = self.sdk.create()
            self.write()
        except BaseException:
            self._end()
            raise
        return importlib.metadata.version("e2b")

    def _environment(self) -> dict[str, str]:
        done = subprocess.run([*self.crabpot, "e2b", "--print-env"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(done.stderr.strip() or "crabpot e2b failed")
        return dict(word.split("=", 1) for word in shlex.split(done.stdout)[1:])

    def open(self) -> Any:
        """Run a sandbox to the end of its first command."""
        made = self.sdk.create()
        made.commands.run("true")
        return made

    def shut(self, made: Any) -> None:
        """End it."""
        made.kill()

    def exec(self) -> None:
        """Run a command in the sandbox that is kept."""
        assert self.kept.commands.run("true").exit_code == 0

    def read(self) -> None:
        """Read a small file from it."""
        assert self.kept.files.read("small") == _CONTENT

    def write(self) -> None:
        """Write a small file into it."""
        self.kept.files.write("small", _CONTENT)

    def stop(self) -> None:
        """End the sandbox and the gateway."""
        self.kept.kill()
        self._end()

    def _end(self) -> None:
        subprocess.run([*self.crabpot, "serve", "stop"], capture_output=True, check=False)
        shutil.rmtree(self.state, ignore_errors=True)
