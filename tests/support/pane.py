"""A real terminal (tmux) with a shell in it that runs Crabpot, for what a person sees and types."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program

PROMPT = "left] >"


class Pane:
    """A terminal of its own, with a shell in it that runs Crabpot."""

    def __init__(self, program: Program, folder: Path, *, patience_s: float = 60) -> None:
        self._patience_s = patience_s
        self._tmux = ["tmux", "-S", str(folder / f"tmux-{id(self)}.sock"), "-f", "/dev/null"]
        self._words = shlex.join(program.argv)
        environ = {**program.environ, "PS1": "$ ", "ENV": "", "TERM": "screen"}
        start = [*self._tmux, "new-session", "-d", "-x", "150", "-y", "50", "/bin/sh"]
        subprocess.run(start, env=environ, cwd=program.home, check=True)

    def tmux(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True).stdout

    def end(self) -> None:
        """End its server, unless that went with the last pane."""
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def run(self, *arguments: str) -> None:
        # What an earlier command left on the screen is not this one's end.
        self.type("clear")
        wait_until(lambda: "ended=" not in self.text, self._patience_s)
        self.type(f"{self._words} {shlex.join(arguments)}; echo ended=$?")

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)
        self.tmux("send-keys", "Enter")

    @property
    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-J")

    def shows(self, text: str) -> str:
        def seen() -> str | None:
            now = self.text
            return now if text in now else None

        try:
            return str(wait_until(seen, self._patience_s))
        except AssertionError:
            raise AssertionError(f"{text!r} is not in:\n{self.text}") from None

    def asked(self) -> str:
        """Wait until the question stands: what was typed before its prompt has been thrown away, what is typed now is heard."""
        return self.shows(PROMPT)

    def answer(self, text: str) -> None:
        self.asked()
        self.type(text)
