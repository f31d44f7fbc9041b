"""The real command line, started as a person starts it, in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.ordinary_user import skip_or_fail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        """Give what went wrong: only sentences of ours, never a traceback, and nothing on standard output."""
        assert self.out == ""
        assert "Traceback" not in self.err
        assert all(line.startswith("crabpot: ") for line in self.err.splitlines())
        return self.err


@dataclass(frozen=True, kw_only=True)
class Program:
    """The one way in which these tests start Crabpot."""

    home: Path
    argv: tuple[str, ...] = (sys.executable, "-m", "crabpot")

    @property
    def environ(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(REPOSITORY / "src"),
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
            timeout=PATIENCE_S,
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


def until(condition: Callable[[], Any], within_s: float = 20.0) -> Any:
    """Wait for a condition, at most so long, and give what it gave."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)
    return found


@pytest.fixture(name="until", scope="session")
def _until() -> Callable[..., Any]:
    return until


@pytest.fixture
def placed(crabpot: Program) -> Program:
    """A program whose sessions run on the host, through the real runner: what is tested is the way there and back."""
    crabpot.configure('{agents: {defaults: {sandbox: {mode: "off"}}}}')
    crabpot.workspace.mkdir()
    return crabpot


@pytest.fixture
def crabpot(tmp_path_factory: pytest.TempPathFactory) -> Program:
    # Not below the test's own folder, whose long name leaves no room for a socket's.
    return Program(home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def seeds() -> Path:
    return REPOSITORY / "tests/seeds"


@dataclass(frozen=True, kw_only=True)
class Docker:
    """The real client, over the engine of the tests; what it makes is removed at the end."""

    host: str
    containers: list[str]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", "--host", self.host, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def inspect(self, name: str) -> Any:
        said = self("inspect", name)
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)[0]

    def name(self) -> str:
        """Give a name that no other container has, and that is cleared away."""
        made = f"crabpot-test-{os.urandom(4).hex()}"
        self.containers.append(made)
        return made

    def paste(self, text: str, *, shell: str = "sh") -> subprocess.CompletedProcess[str]:
        """Do with a text what a person does who pastes it."""
        environ = {"PATH": os.environ["PATH"], "DOCKER_HOST": self.host, "HOME": "/nonexistent"}
        return subprocess.run(
            [shell, "-c", text], env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )


@pytest.fixture
def docker() -> Iterator[Docker]:
    """Skip on a machine without an engine and the sandbox image; fail where $CRABPOT_REQUIRE_BACKENDS names docker."""
    made = Docker(host=os.environ.get("DOCKER_HOST", ""), containers=[])
    if not made.host.startswith("unix:///"):
        skip_or_fail(
            "docker", "DOCKER_HOST names no local engine: scripts/docker-engine start, then scripts/test-image"
        )
    said = made("image", "inspect", "crabpot-sandbox:latest")
    if said.returncode != 0:
        skip_or_fail("docker", said.stderr)
    yield made
    for name in made.containers:
        volumes = made("inspect", name, "--format", "{{range .Mounts}}{{.Name}} {{end}}").stdout.split()
        made("rm", "--force", "--volumes", name)
        if volumes:
            made("volume", "rm", *volumes)
