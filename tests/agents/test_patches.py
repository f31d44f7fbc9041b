"""The patches that models write, given to the real Codex: what it takes, `apply_patch` takes alike."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.agents import model_environ
from tests.unit.runner.test_patch import WRITTEN

# Where we take what Codex refuses, or keep what it loses.
OURS = {
    "blanks before each name, and around a move": "a name with blanks around it is meant without them",
    "blanks around the end of a file": "the marker is known with blanks around it, as the other markers are",
    "a move to its own place": "the file stays: there it is gone afterwards",
    "two files that change places": "a move needs no change",
}


@pytest.fixture
def codex(place: Path) -> Path:
    """The real program, under the name that has it apply a patch and end."""
    environ = model_environ(place)
    found = shutil.which("codex", path=environ["PATH"])
    assert found is not None
    packages = list(Path(found).resolve().parents[3].glob("**/vendor/*/bin/codex"))
    assert packages, "no binary of Codex in its package"
    (place / "apply_patch").symlink_to(packages[0])
    return place / "apply_patch"


@pytest.mark.parametrize("what", WRITTEN)
def test_codex_makes_the_same_of_it(what: str, codex: Path, folder: Path) -> None:
    patch, before, after = WRITTEN[what]
    for name, content in before.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    subprocess.run([codex, patch], cwd=folder, capture_output=True, check=False, timeout=60)
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert (found == after) is (what not in OURS), OURS.get(what, "they are alike")


def test_no_reason_is_for_a_case_that_there_is_not() -> None:
    assert OURS.keys() <= WRITTEN.keys()
