"""srt, Anthropic's sandbox-runtime: a fresh bubblewrap with its own proxies around every command."""

from __future__ import annotations

import json
import os
import subprocess

NAME = "srt"
PACKAGES: tuple[str, ...] = ()
NPM: tuple[str, ...] = ("@anthropic-ai/sandbox-runtime@0.0.83",)
BEYOND = "runs on macOS as well, and works on the user's own files in place, refusing what its settings name"


class Adapter:
    """Keeps nothing."""

    def start(self) -> str:
        """Find it in the folder that it was installed into."""
        modules = f"{os.environ['CRABPOT_BENCH_HOME']}/node_modules"
        self.program = f"{modules}/.bin/srt"
        self.open()
        with open(f"{modules}/@anthropic-ai/sandbox-runtime/package.json", encoding="utf-8") as stream:
            version: str = json.load(stream)["version"]
        return version

    def open(self) -> None:
        """Run a sandbox to the end of its command."""
        done = subprocess.run([self.program, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            raise OSError((done.stderr.decode(errors="replace").strip().splitlines() or ["srt failed"])[0])

    def exec(self) -> None:
        """Do the same: there is no sandbox to run a command in."""
        self.open()

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""
