"""Codex: its own sandbox, around one command."""

from __future__ import annotations

import json
import os
import subprocess

NAME = "codex"
PACKAGES: tuple[str, ...] = ()
NPM: tuple[str, ...] = ("@openai/codex@0.166.0",)
BEYOND = "runs on macOS and Windows as well, and is part of an agent that asks before it leaves its sandbox"


class Adapter:
    """Keeps nothing."""

    def start(self) -> str:
        """Find it in the folder that it was installed into."""
        modules = f"{os.environ['CRABPOT_BENCH_HOME']}/node_modules"
        self.program = f"{modules}/.bin/codex"
        self.open()
        with open(f"{modules}/@openai/codex/package.json", encoding="utf-8") as stream:
            version: str = json.load(stream)["version"]
        return version

    def open(self) -> None:
        """Run a sandbox to the end of its command."""
        done = subprocess.run(
            [self.program, "sandbox", "--", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode:
            raise OSError((done.stderr.decode(errors="replace").strip().splitlines() or ["codex failed"])[0])

    def exec(self) -> None:
        """Do the same: there is no sandbox to run a command in."""
        self.open()

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""
