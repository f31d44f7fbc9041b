"""The shims of host commands, run by the shell that runs them inside."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from crabpot.spec import hardening, shims

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def git(tmp_path: Path) -> Path:
    """A shim for two subcommands of git, whose interpreter says what it was asked, and another git behind it."""
    for name, text in {"asks": 'echo "asked in $(pwd):" "$@"', "bin/git": 'echo "inside:" "$@"; exit 3'}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    made = shims.written(("git push", "git fetch"), interpreter=f"{tmp_path}/asks", runner="/runner")
    (written,) = made.values()
    shim = tmp_path / "git"
    shim.write_bytes(written)
    shim.chmod(0o755)
    return shim


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("push", "origin", "a b"), "asked in {here}: -I -S /runner/upcalls/shim.py git push origin a b"),
        (("fetch",), "asked in {here}: -I -S /runner/upcalls/shim.py git fetch"),
        (("-C", "bin", "push", "-q"), "asked in {here}/bin: -I -S /runner/upcalls/shim.py git push -q"),
        (("status",), "inside: status"),
        (("-C", "bin", "status", "push"), "inside: -C bin status push"),
        (("commit", "-m", "push *"), "inside: commit -m push *"),
        ((), "inside:"),
    ],
)
def test_what_is_listed_asks_and_the_rest_is_the_next_program_of_that_name(
    words: tuple[str, ...], said: str, git: Path
) -> None:
    here = git.parent
    path = f"{hardening.SHIMS}:/nowhere::{here}/bin:/usr/bin:/bin"
    done = subprocess.run([git, *words], cwd=here, env={"PATH": path}, capture_output=True, text=True, check=False)
    assert done.stdout == said.format(here=here) + "\n"
    assert done.returncode == (3 if said.startswith("inside") else 0)


def test_a_program_that_is_not_there_is_not_found(git: Path) -> None:
    done = subprocess.run([git, "status"], env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (127, "crabpot: git: not found in this sandbox\n")


def test_a_listed_name_asks_whatever_its_arguments() -> None:
    made = shims.written(("git push", "git", "docker"), interpreter="/usr/bin/python3", runner="/runner")
    asks = "exec /usr/bin/python3 -I -S /runner/upcalls/shim.py"
    assert made == {
        f"{hardening.SHIMS}/{name}": f'#!/bin/sh\n{asks} {name} "$@"\n'.encode() for name in ("git", "docker")
    }
