"""The real command line, started as a person starts it, in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 120.0
# Root passes every permission check by these two capabilities; without them it is refused as anybody else is.
AS_ANYBODY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a run left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def said(self) -> str:
        """Return what went wrong: only sentences of ours, never a traceback, and nothing on standard output."""
        assert self.out == ""
        assert "Traceback" not in self.err
        assert all(line.startswith("crabpot: ") for line in self.err.splitlines())
        return self.err


@dataclass(frozen=True, kw_only=True)
class Program:
    """The one way in which these tests start Crabpot."""

    home: Path
    argv: tuple[str, ...] = (sys.executable, "-m", "crabpot")
    more: Mapping[str, str] = field(default_factory=dict)
    patience_s: float = PATIENCE_S

    @property
    def environ(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(REPOSITORY / "src"),
            # Each call for itself: what a test leaves behind must not be another's to end.
            "CRABPOT_LINGER": "0",
            **self.more,
        }

    @property
    def usual_file(self) -> Path:
        return self.home / ".config/crabpot/crabpot.json5"

    def configure(self, text: str) -> Path:
        """Write the user's own configuration."""
        self.usual_file.parent.mkdir(parents=True, exist_ok=True)
        self.usual_file.write_text(text, encoding="utf-8", newline="")
        return self.usual_file

    def __call__(
        self,
        *arguments: str | bytes,
        cwd: Path | None = None,
        as_anybody: bool = False,
        stdin: bytes = b"",
        **environ: str,
    ) -> Ended:
        prefix = AS_ANYBODY if as_anybody and os.geteuid() == 0 else ()
        done = subprocess.run(
            [*prefix, *self.argv, *arguments],
            cwd=cwd or self.home,
            env={**self.environ, **environ},
            input=stdin,
            capture_output=True,
            timeout=self.patience_s,
            check=False,
            # Without the terminal of whoever runs the tests, where it would ask.
            start_new_session=True,
        )
        return Ended(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start it and go on; whoever starts it ends it."""
        return subprocess.Popen(
            [*self.argv, *arguments], cwd=self.home, env=self.environ, start_new_session=True, **options
        )

    @property
    def workspace(self) -> Path:
        return self.home / "agent"

    @property
    def state(self) -> Path:
        return self.home / ".local/state/crabpot"

    @contextmanager
    def listening(self, *, orderly: bool = True) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        """Serve on the loopback too; yields the process and its port, and sees it end in order unless it was attacked."""
        listen = ("serve", "--listen", "127.0.0.1:0")
        served = self.start(*listen, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert served.stdout is not None
            line = served.stdout.readline().decode()
            yield served, int(line.rsplit(":", 1)[1].split(";")[0])
            if served.poll() is None:
                served.terminate()
                _, complaints = served.communicate(timeout=PATIENCE_S)
                assert not orderly or (served.returncode, complaints) == (0, b"")
        finally:
            served.kill()
            served.communicate()

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[bytes]]:
        """Serve for as long as a block lasts, and see it end in order."""
        served = self.start("serve", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert served.stdout is not None
            assert b"serves on" in served.stdout.readline()
            yield served
            served.terminate()
            _, complaints = served.communicate(timeout=PATIENCE_S)
            assert (served.returncode, complaints) == (0, b"")
        finally:
            served.kill()
            served.communicate()
