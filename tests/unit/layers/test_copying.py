"""A folder copied into a layer: whole, as it was, and without what its owner could not have read."""

from __future__ import annotations

import os

import pytest

from crabpot.errors import LayerError
from crabpot.layers import content, copying
from crabpot.layers.store import LayerStore

OTHER = 61234


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "project"
    (made / "sub").mkdir(parents=True)
    (made / "file").write_text("content")
    (made / "sub" / "tool").write_text("#!/bin/sh\n")
    (made / "sub" / "tool").chmod(0o755)
    (made / "link").symlink_to("/etc/passwd")
    os.mkfifo(made / "fifo")
    (made / os.fsdecode(b"\xff\nodd")).write_text("odd")
    return made


@pytest.fixture
def layer(tmp_path, folder):
    store = LayerStore(str(tmp_path / "state"))
    return store.make(
        scope_key="agent:main:main", session="agent:main:main", agent="main", folder=str(folder), mechanism="copy"
    )


def test_a_copy_is_whole_but_for_what_is_no_file(layer, folder):
    copying.copy_folder(layer)
    copied = {path for path, _ in copying.walk(layer.content)}
    assert copied == {"file", "sub", "sub/tool", "link", os.fsdecode(b"\xff\nodd")}
    assert os.readlink(f"{layer.content}/link") == "/etc/passwd"
    assert os.stat(f"{layer.content}/sub/tool").st_mode & 0o777 == 0o755
    assert os.stat(f"{layer.content}/file").st_mtime_ns == os.stat(folder / "file").st_mtime_ns


def test_reading_it_leaves_no_trace_on_the_host(layer, folder):
    os.utime(folder / "file", (1, 2))
    before = os.stat(folder / "file")
    copying.copy_folder(layer)
    after = os.stat(folder / "file")
    assert (after.st_atime_ns, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_atime_ns,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


def test_what_it_was_is_noted_by_path(layer, folder):
    copying.copy_folder(layer)
    found = copying.base(layer)
    assert found["sub"].type == "folder"
    assert (found["link"].type, found["link"].content) == ("link", "/etc/passwd")
    assert found["file"].content == "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    assert found["file"].inode == os.stat(folder / "file").st_ino


def test_an_interrupted_copy_begins_anew(layer):
    with open(f"{layer.content}/half", "w") as file:
        file.write("half")
    assert not copying.is_complete(layer)
    copying.copy_folder(layer)
    assert copying.is_complete(layer)
    assert not os.path.exists(f"{layer.content}/half")


@pytest.mark.parametrize(
    "change",
    [
        lambda at: open(f"{at}/new", "w").close(),
        lambda at: os.unlink(f"{at}/link"),
        lambda at: os.chmod(f"{at}/file", 0o600),
        lambda at: os.truncate(f"{at}/file", 2),
        lambda at: os.rename(f"{at}/sub", f"{at}/other"),
    ],
)
def test_each_change_shows(layer, change):
    copying.copy_folder(layer)
    assert content.is_empty(layer)
    change(layer.content)
    assert not content.is_empty(layer)


def test_a_note_that_was_tampered_with_is_a_clear_error(layer):
    copying.copy_folder(layer)
    with open(f"{layer.path}/base.json", "w") as file:
        file.write('{"entries": {"file": 1}}')
    with pytest.raises(LayerError, match="copied from"):
        copying.base(layer)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read another's files, and make them")
def test_roots_copy_shows_no_more_than_the_owner_or_everybody_may_read(layer, folder):
    os.chown(folder, OTHER, OTHER)
    os.chown(folder / "file", OTHER, OTHER)
    os.chmod(folder / "file", 0o600)
    (folder / "secret").write_text("root's alone")
    (folder / "secret").chmod(0o600)
    (folder / "hidden").mkdir(mode=0o700)
    (folder / "hidden" / "readable").write_text("but not by this way")
    copying.copy_folder(layer)
    copied = {path for path, _ in copying.walk(layer.content)}
    assert "file" in copied
    assert not {"secret", "hidden", "hidden/readable"} & copied
