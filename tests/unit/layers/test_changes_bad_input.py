"""Layers and folders that are not as they should be: each gets a clear answer, and nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crabpot.errors import LayerError
from crabpot.layers.changes.applying import apply, undo
from crabpot.layers.changes.discarding import discard
from crabpot.layers.changes.reading import changes
from tests.support.layers import project

# A disk of 256 KiB, on which what the agent made finds no room.
_FULL = """
import subprocess, sys
from pathlib import Path
from crabpot.errors import LayerError
from crabpot.layers.changes.applying import apply
from tests.support.layers import over, picture
place = Path(sys.argv[1])
folder = place / "project"
folder.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=True)
(folder / "a").write_text("one")
one = over(folder, place / "state", "copy")
one.agent("echo two > a; head -c 1000000 /dev/zero | tr '\\\\0' x > large")
before = picture(folder)
try:
    apply(one.layer)
except LayerError as error:
    print(error)
after = picture(folder)
assert {path: facts[2:] for path, facts in after.items()} == {path: facts[2:] for path, facts in before.items()}
assert set(apply(one.layer, ["a"]).applied) == {"a"}
"""


def test_a_full_disk_is_found_before_anything_is_touched(tmp_path: Path) -> None:
    ended = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", _FULL, str(tmp_path)],
        env={"PYTHONPATH": ":".join([str(Path(__file__).parents[3]), *sys.path]), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "nothing was changed" in ended.stdout
    assert "No space left" in ended.stdout


def test_a_layer_that_was_tampered_with_says_so_and_changes_nothing(tmp_path: Path) -> None:
    one = project(tmp_path, "overlay", a="one")
    one.agent("echo two > a")
    (Path(one.layer.path) / "journal").write_text("{]")
    with pytest.raises(LayerError, match="journal"):
        apply(one.layer)
    (Path(one.layer.path) / "journal").unlink()
    (Path(one.layer.path) / "entered.json").write_text("[]")
    with pytest.raises(LayerError, match="cannot be read"):
        apply(one.layer)
    (Path(one.layer.path) / "entered.json").unlink()
    shutil.rmtree(one.layer.content)
    Path(one.layer.content).symlink_to("/etc")
    with pytest.raises(LayerError, match="tampered"):
        apply(one.layer)
    assert (one.folder / "a").read_text() == "one"


def test_a_tree_deeper_than_any_project_exhausts_nobody(tmp_path: Path) -> None:
    one = project(tmp_path, "overlay", a="one")
    one.agent("for i in $(seq 600); do mkdir d && cd d; done; echo x > x")
    result = apply(one.layer)
    assert [left.why for left in result.left] == ["refused"]
    assert "folders deep" in result.left[0].reason
    assert len(result.applied) < 300
    subprocess.run(["rm", "-rf", one.folder / "d", one.layer.content], check=True)


@pytest.mark.parametrize("mechanism", ["overlay", "copy"])
def test_changes_are_discarded_by_path(tmp_path: Path, mechanism: str) -> None:
    one = project(tmp_path, mechanism, a="one", d__in="in", e__f="f")  # type: ignore[arg-type]
    one.agent("echo two > a; rm -r d; echo n > new; mkdir -p deep/er; echo x > deep/er/x; chmod 755 e/f")
    assert set(discard(one.layer, ["a", "d", "deep"])) == {"a", "d", "d/in", "deep", "deep/er", "deep/er/x"}
    assert {found.path for found in changes(one.layer)} == {"new", "e/f"}
    with pytest.raises(LayerError, match="nothing changed"):
        discard(one.layer, ["a"])


@pytest.mark.parametrize("mechanism", ["overlay", "copy"])
def test_hundreds_of_changes_come_go_back_and_are_forgotten(tmp_path: Path, mechanism: str) -> None:
    one = project(tmp_path, mechanism, a="one")  # type: ignore[arg-type]
    one.agent("for d in 0 1 2 3; do mkdir $d; for i in $(seq 130); do echo $i > $d/$i; done; done; rm a")
    paths = {found.path for found in changes(one.layer)}
    assert len(paths) == 525
    assert set(apply(one.layer).applied) == paths
    assert changes(one.layer) == []
    assert set(undo(one.layer).applied) == paths
    assert [found.name for found in one.folder.iterdir()] == ["a"]
    assert len(discard(one.layer, ["0"])) == 131
    assert {found.path for found in changes(one.layer)} == {path for path in paths if path.split("/")[0] != "0"}
