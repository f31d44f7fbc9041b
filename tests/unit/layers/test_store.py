"""The layers of a state folder: whole or not there, found by scope and by folder, and held by one at a time."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from crabpot.errors import LayerBusy, LayerError
from crabpot.layers import layer as layers
from crabpot.layers import stamps
from crabpot.layers.store import LayerStore

SESSION = "agent:main:main"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def store(tmp_path):
    return LayerStore(str(tmp_path / "state"))


def make(store, folder, scope_key=SESSION, mechanism="overlay"):
    return store.make(scope_key=scope_key, session=scope_key, agent="main", folder=str(folder), mechanism=mechanism)


def test_a_layer_is_found_by_its_scope_as_it_was_made(store, folder):
    made = make(store, folder)
    assert store.find(SESSION) == made
    assert (made.device, made.inode) == (os.stat(folder).st_dev, os.stat(folder).st_ino)
    assert store.find("agent:main:other") is None


def test_a_layer_is_found_by_its_folder_the_last_used_first(store, folder):
    first, second = make(store, folder), make(store, folder, "agent:main:two")
    for layer in (first, second):
        with store.hold(layer):
            pass
    os.utime(os.path.join(first.path, "lock"), (1, 1))
    assert store.find_by_folder(str(folder)) == second
    os.utime(os.path.join(second.path, "lock"), (0, 0))
    assert store.find_by_folder(f"{folder}/../project") == first
    assert store.find_by_folder(str(folder.parent)) is None


def test_nobody_else_may_look_at_the_layers(store, folder):
    made = make(store, folder)
    above = os.stat(os.path.dirname(made.path))
    assert stat.S_IMODE(above.st_mode) == 0o700
    assert stat.S_IMODE(os.stat(f"{made.path}/layer.json").st_mode) == 0o600


def test_a_scope_has_one_layer(store, folder):
    make(store, folder)
    with pytest.raises(LayerError, match="already"):
        make(store, folder)
    assert len(os.listdir(os.path.dirname(store.path_of(SESSION)))) == 1


def test_a_layer_of_another_scope_with_the_same_name_is_refused(store, folder):
    made = make(store, folder)
    record = Path(made.path, "layer.json")
    record.write_text(json.dumps(json.loads(record.read_text()) | {"scope_key": "agent:other:main"}))
    with pytest.raises(LayerError, match="belongs to another session"):
        store.find(SESSION)


@pytest.mark.parametrize(
    "record", ["", "[]", "{}", "null", '{"version": 2}', '{"version": 1, "mechanism": "magic"}', "\x00"]
)
def test_a_record_that_was_tampered_with_is_a_clear_error_and_nothing_is_lost(store, folder, record):
    made = make(store, folder)
    with open(f"{made.content}/work", "w") as file:
        file.write("precious")
    with open(f"{made.path}/layer.json", "w") as file:
        file.write(record)
    with pytest.raises(LayerError, match="cannot be read"):
        store.find(SESSION)
    assert store.all() == []
    assert os.path.exists(f"{made.content}/work")


def test_a_layer_is_held_by_one_at_a_time(store, folder):
    made = make(store, folder)
    with store.hold(made), pytest.raises(LayerBusy, match="in use"), store.hold(made):
        pass
    with store.hold(made):
        pass


def test_a_layer_that_is_held_is_not_forgotten(store, folder):
    made = make(store, folder)
    with store.hold(made), pytest.raises(LayerBusy):
        store.forget(made)
    assert store.find(SESSION) == made


def test_a_forgotten_layer_leaves_nothing_and_cannot_be_held(store, folder):
    made = make(store, folder)
    os.makedirs(f"{made.content}/deep/deeper")
    os.mkdir(f"{made.path}/work/work", 0o000)
    store.forget(made)
    assert store.all() == []
    assert os.listdir(os.path.dirname(made.path)) == []
    with pytest.raises(LayerError, match="gone"), store.hold(made):
        pass


def test_what_an_interrupted_removal_left_is_no_layer_and_goes_with_the_next(store, folder):
    made = make(store, folder)
    os.rename(made.path, f"{made.path}.0123.gone")
    assert store.all() == []
    store.sweep()
    assert os.listdir(os.path.dirname(made.path)) == []


def test_a_folder_that_was_replaced_or_removed_is_noticed(store, folder):
    made = make(store, folder)
    assert made.problem_with_folder() is None
    folder.rename(folder.parent / "moved")
    assert "No such file" in made.problem_with_folder()
    folder.mkdir()
    assert "replaced" in made.problem_with_folder()


def test_each_mount_is_stamped_and_one_that_nobody_closed_ends_with_the_next(store, folder):
    path = make(store, folder).path
    assert stamps.mounts(path) == []
    stamps.opened(path)
    stamps.opened(path)
    (first, second) = stamps.mounts(path)
    assert first.closed_ns == second.opened_ns
    assert second.closed_ns is None
    stamps.closed(path)
    assert stamps.mounts(path)[-1].closed_ns >= second.opened_ns


def test_the_oldest_of_very_many_mounts_become_one(store, folder):
    path = make(store, folder).path
    with open(f"{path}/mounts.json", "w") as file:
        json.dump([[at * 10, at * 10 + 5] for at in range(1, 1500)], file)
    stamps.closed(path)
    found = stamps.mounts(path)
    assert len(found) == 1000
    assert found[0] == (10, 5005)
    assert found[1].opened_ns == 5010


def test_a_record_survives_writing_and_reading(store, folder):
    made = make(store, folder, mechanism="copy")
    assert made.content.endswith("/copy")
    assert layers.read(made.path) == made
