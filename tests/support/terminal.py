"""A person at a real terminal, with Crabpot in its foreground."""

from __future__ import annotations

import codecs
import os
import pty
import select
import signal
import termios
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.program import Program


class Terminal:
    """A person at a terminal: a real one, with the program as its foreground process."""

    def __init__(
        self, program: Program, *arguments: str, rows: int = 24, cols: int = 80, cwd: Path | None = None
    ) -> None:
        pid, self.fd = pty.fork()
        self.pid: int | None = pid
        if pid == 0:
            os.chdir(cwd or program.home)
            termios.tcsetwinsize(0, (rows, cols))
            os.execve(program.argv[0], [*program.argv, *arguments], {**program.environ, "TERM": "xterm-color"})
        self.seen = ""
        # A character may be cut in two by what is read at once.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.code: int | None = None

    def resize(self, rows: int, cols: int) -> None:
        termios.tcsetwinsize(self.fd, (rows, cols))

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait_for(self, text: str, within_s: float = 30.0) -> None:
        deadline = time.monotonic() + within_s
        while text not in self.seen:
            assert self._read(deadline - time.monotonic()), f"ended, or silent, without {text!r}: {self.seen!r}"

    def _read(self, within_s: float = 30.0) -> bool:
        if not select.select([self.fd], [], [], max(0.0, within_s))[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += self._decoder.decode(data)
        return bool(data)

    def end(self) -> int:
        while self._read():
            pass
        assert self.pid is not None
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        self.pid = None
        return self.code

    def close(self) -> None:
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
