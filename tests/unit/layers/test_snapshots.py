"""Snapshots on disk: whole or not there, by names that lead nowhere, and nothing half left by a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Literal

import pytest

import crabpot
from crabpot.errors import LayerError
from crabpot.layers.snapshots import SnapshotStore, restore_layer
from tests.support.killing import killed_at
from tests.support.layers import project

ONE = "agent:main:one"

# In a mount namespace of its own, with a state folder that has next to no room.
_FULL = """
import os, sys
from crabpot.layers.snapshots import SnapshotStore, restore_layer
from tests.support.killing import killed_at
from tests.support.layers import project
state, files = sys.argv[1:]
try:
    SnapshotStore(state).save("agent:main:one", "first", files)
except OSError as error:
    print(error.errno == 28, SnapshotStore(state).all("agent:main:one"))
print([name for at, _, names in os.walk(state) for name in names])
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    made = tmp_path / "files"
    made.mkdir()
    (made / "note").write_text("kept")
    return made


def test_a_snapshot_is_found_by_its_scope_and_name(tmp_path: Path, files: Path) -> None:
    store = SnapshotStore(str(tmp_path / "state"))
    saved = store.save(ONE, "first", str(files))
    assert store.all(ONE) == [saved]
    assert Path(saved.files, "note").read_text() == "kept"
    assert store.all("agent:main:two") == []
    with pytest.raises(LayerError, match="already"):
        store.save(ONE, "first", str(files))
    store.remove(ONE, "first")
    with pytest.raises(LayerError, match="it has none"):
        store.find(ONE, "first")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "-x", ".x", "a\n", "é", "x" * 65])
def test_a_name_that_could_lead_elsewhere_is_refused(tmp_path: Path, files: Path, name: str) -> None:
    with pytest.raises(LayerError, match="cannot name a snapshot"):
        SnapshotStore(str(tmp_path / "state")).save(ONE, name, str(files))


def test_a_note_that_was_tampered_with_is_no_snapshot(tmp_path: Path, files: Path) -> None:
    store = SnapshotStore(str(tmp_path / "state"))
    saved = store.save(ONE, "first", str(files))
    Path(saved.path, "snapshot.json").write_text("[]")
    assert store.all(ONE) == []


def test_what_was_interrupted_long_ago_goes_with_the_next(tmp_path: Path, files: Path) -> None:
    store = SnapshotStore(str(tmp_path / "state"))
    old, new = (Path(store.folder_of(ONE), f"{name}.draft") for name in ("old", "new"))
    old.mkdir(parents=True)
    new.mkdir()
    os.utime(old, (1, time.time() - 100_000))
    store.save(ONE, "first", str(files))
    assert sorted(os.listdir(store.folder_of(ONE))) == ["first", "new.draft"]


def test_a_full_disk_leaves_nothing_half(tmp_path: Path, files: Path) -> None:
    (files / "large").write_bytes(os.urandom(4 << 20))
    state = tmp_path / "state"
    state.mkdir()
    script = 'mount -t tmpfs -o size=1m none "$1" && exec "$0" -c "$3" "$1" "$2"'
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script, sys.executable, str(state), str(files), _FULL],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(crabpot.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout == "True []\n[]\n", done.stderr


@pytest.mark.parametrize("mechanism", ["overlay", "copy"])
def test_a_restore_killed_at_any_moment_leaves_the_one_or_the_other(
    tmp_path: Path, mechanism: Literal["overlay", "copy"]
) -> None:
    one = project(tmp_path, mechanism, a="one")
    one.agent("echo kept > new")
    snapshot = SnapshotStore(str(tmp_path / "state")).save(one.layer.scope_key, "first", one.layer)
    ends = set()
    for moment in count(1):
        one.agent("echo later > new")
        killed = killed_at(moment, lambda: restore_layer(one.store, snapshot, one.layer))
        found = one.store.find(one.layer.scope_key)
        assert found is not None, moment
        ends.add((Path(found.content) / "new").read_text())
        if not killed:
            break
    assert ends == {"kept\n", "later\n"}
