"""`crabpot cp`: what arrives is what was sent, nothing that was not named comes along, and nothing lands elsewhere."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

S = "agent:main:main"


@pytest.fixture
def inside(placed):
    """Name a path inside."""
    return lambda path="": f"{S}:{placed.workspace}/{path}"


def digest(path):
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def listing(top):
    """Return every path below, with its content where it is a file."""
    found: dict[str, Any] = {}
    for folder, folders, files in os.walk(top):
        for name in folders:
            found[os.path.relpath(os.path.join(folder, name), top)] = None
        for name in files:
            path = Path(folder, name)
            found[os.path.relpath(path, top)] = os.readlink(path) if path.is_symlink() else path.read_bytes()
    return found


# --- files ---------------------------------------------------------------------------------------------------------------


def test_a_hundred_megabytes_both_ways_have_equal_checksums(placed, inside, tmp_path):
    with open(tmp_path / "big", "wb") as stream:
        stream.writelines(os.urandom(1_000_000) for _ in range(100))
    ended = placed("cp", str(tmp_path / "big"), inside("big"))
    assert (ended.code, ended.out) == (0, "copied 1 file, 100000000 bytes\n"), ended.err
    ended = placed("cp", inside("big"), str(tmp_path / "back"))
    assert (ended.code, ended.out) == (0, "copied 1 file, 100000000 bytes\n"), ended.err
    assert digest(tmp_path / "big") == digest(placed.workspace / "big") == digest(tmp_path / "back")


@pytest.mark.parametrize("size", [0, 1, 65_536, 1_048_576, 1_048_577])
def test_files_of_every_size_arrive_whole(placed, inside, tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "a").write_bytes(content)
    assert placed("cp", str(tmp_path / "a"), inside("b")).code == 0
    assert (placed.workspace / "b").read_bytes() == content
    assert placed("cp", inside("b"), str(tmp_path / "c")).code == 0
    assert (tmp_path / "c").read_bytes() == content


NAMES = [
    "with space",
    "new\nline",
    "ünï-cödé-😀",
    'quote\'s "double" $HOME `id` ;|&',
    "-n",
    "--help",
    "a:b",
    "%s",
    "\x1b[31m",
]


def test_names_of_every_kind_arrive_as_they_are(placed, inside, tmp_path):
    source = tmp_path / "src"
    source.mkdir()
    for name in NAMES:
        (source / name).write_text(name)
        (source / f"d {name}").mkdir()
        (source / f"d {name}" / name).write_text(name)
        (source / name).chmod(0o755)
    ended = placed("cp", str(source), inside("dst"))
    assert ended.code == 0, ended.err
    assert listing(placed.workspace / "dst") == listing(source)
    assert placed("cp", inside("dst"), str(tmp_path / "back")).code == 0
    assert listing(tmp_path / "back") == listing(source)
    for top in (placed.workspace / "dst", tmp_path / "back"):
        assert all(os.access(top / name, os.X_OK) for name in NAMES)


def test_into_a_folder_that_is_there_it_keeps_its_name(placed, inside, tmp_path):
    (tmp_path / "name").write_text("x")
    (placed.workspace / "folder").mkdir()
    assert placed("cp", str(tmp_path / "name"), inside("folder")).code == 0
    assert (placed.workspace / "folder" / "name").read_text() == "x"
    (tmp_path / "out").mkdir()
    assert placed("cp", inside("folder/name"), str(tmp_path / "out")).code == 0
    assert (tmp_path / "out" / "name").read_text() == "x"
    assert placed("cp", inside("folder"), str(tmp_path / "out")).code == 0
    assert (tmp_path / "out" / "folder" / "name").read_text() == "x"


def test_a_folder_with_all_in_it_both_ways(placed, inside, tmp_path):
    source = tmp_path / "src"
    (source / "a" / "b" / "c").mkdir(parents=True)
    (source / "empty" / "er").mkdir(parents=True)
    (source / ".hidden").write_text("h")
    (source / "a" / "b" / "c" / "deep").write_bytes(os.urandom(1000))
    (source / "a" / "zero").write_bytes(b"")
    ended = placed("cp", str(source), inside("dst"))
    assert ended.code == 0, ended.err
    assert listing(placed.workspace / "dst") == listing(source)
    assert placed("cp", inside("dst"), str(tmp_path / "back")).code == 0
    assert listing(tmp_path / "back") == listing(source)


def test_the_permission_to_execute_goes_along_and_no_other(placed, inside, tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "tool").chmod(0o4755)
    (tmp_path / "plain").write_text("x")
    (tmp_path / "plain").chmod(0o600)
    for name in ("tool", "plain"):
        assert placed("cp", str(tmp_path / name), inside(name)).code == 0
        assert placed("cp", inside(name), str(tmp_path / f"{name}-back")).code == 0
    for tool in (placed.workspace / "tool", tmp_path / "tool-back"):
        assert tool.stat().st_mode & 0o100
        assert not tool.stat().st_mode & 0o7000
    for plain in (placed.workspace / "plain", tmp_path / "plain-back"):
        assert not plain.stat().st_mode & 0o111


def test_where_exec_is_denied_files_are_copied_and_what_is_not_is_told(placed, inside, tmp_path):
    placed.configure('{agents: {defaults: {sandbox: {mode: "off"}}}, tools: {deny: ["exec"]}}')
    (tmp_path / "src" / "empty").mkdir(parents=True)
    (tmp_path / "src" / "tool").write_text("x")
    (tmp_path / "src" / "tool").chmod(0o755)
    ended = placed("cp", str(tmp_path / "src"), inside("dst"))
    assert ended.code == 0
    assert "empty folders were not copied" in ended.err
    assert "execute permissions were not copied" in ended.err
    ended = placed("cp", inside("dst"), str(tmp_path / "back"))
    assert (ended.code, listing(tmp_path / "back")) == (0, {"tool": b"x"})
    assert "execute permissions are not copied" in ended.err


# --- links ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("hunter2")
    return tmp_path / "secret"


def test_links_are_not_followed_on_the_way_in(placed, inside, tmp_path, secret):
    source = tmp_path / "src"
    source.mkdir()
    (source / "file").symlink_to(secret / "key")
    (source / "folder").symlink_to(secret)
    os.mkfifo(source / "pipe")
    (source / "honest").write_text("x")
    ended = placed("cp", str(source), inside("dst"))
    assert ended.code == 0
    assert listing(placed.workspace / "dst") == {"honest": b"x"}
    assert ended.err.count("was skipped") == 3


def test_a_link_that_was_named_is_what_was_meant(placed, inside, tmp_path, secret):
    (tmp_path / "link").symlink_to(secret / "key")
    assert placed("cp", str(tmp_path / "link"), inside("f")).code == 0
    assert (placed.workspace / "f").read_text() == "hunter2"


def test_links_are_not_followed_on_the_way_out(placed, inside, tmp_path, secret):
    top = placed.workspace / "top"
    top.mkdir()
    (top / "file").symlink_to(secret / "key")
    (top / "folder").symlink_to(secret)
    (top / "honest").write_text("x")
    ended = placed("cp", inside("top"), str(tmp_path / "out"))
    assert ended.code == 0
    assert listing(tmp_path / "out") == {"honest": b"x"}
    assert ended.err.count("was skipped") == 2


def test_nothing_is_written_through_a_link_at_the_target(placed, inside, tmp_path, secret):
    """The target may be a folder that an agent writes too."""
    (placed.workspace / "top" / "folder").mkdir(parents=True)
    (placed.workspace / "top" / "folder" / "key").write_text("overwritten")
    (placed.workspace / "top" / "file").write_text("overwritten")
    out = tmp_path / "out" / "top"
    out.mkdir(parents=True)
    (out / "file").symlink_to(secret / "key")
    (out / "folder").symlink_to(secret)
    ended = placed("cp", inside("top"), str(tmp_path / "out"))
    assert (secret / "key").read_text() == "hunter2"
    assert ended.code == 1
    assert not (out / "file").is_symlink()
    assert (out / "file").read_text() == "overwritten"


# --- what goes wrong -----------------------------------------------------------------------------------------------------


def test_a_source_that_is_not_there_is_told(placed, inside, tmp_path):
    ended = placed("cp", str(tmp_path / "missing"), inside("x"))
    assert ended.code == 1
    assert "missing: No such file or directory" in ended.said()
    ended = placed("cp", inside("missing"), str(tmp_path / "x"))
    assert ended.code == 1
    assert "not_found" in ended.said()
    assert not list(tmp_path.glob("*x*"))
    assert not list(tmp_path.glob(".crabpot*"))


@pytest.mark.parametrize(
    "pair",
    [("a", "b"), ("/a", "/b"), (f"{S}:/a", f"{S}:/b"), ("./a:/b", "c"), (f"/x/{S}:/a", "b")],
)
def test_one_side_is_here_and_one_is_there(placed, pair):
    ended = placed("cp", *pair)
    assert ended.code == 2
    assert "SESSION:/path" in ended.said()


def test_a_configuration_that_does_not_load_is_2(placed, inside):
    placed.configure("{agents: 5}")
    assert placed("cp", "x", inside("x")).code == 2


def test_a_place_that_cannot_be_written_is_told(placed, inside, tmp_path):
    (tmp_path / "f").write_text("x")
    ended = placed("cp", str(tmp_path / "f"), f"{S}:/proc/version/x")
    assert ended.code == 1
    assert ended.said()
    (placed.workspace / "f").write_text("x")
    ended = placed("cp", inside("f"), str(tmp_path / "missing" / "f"))
    assert ended.code == 1
    assert "No such file or directory" in ended.said()


def test_a_copy_that_is_cut_off_leaves_neither_a_file_nor_a_part(placed, inside, tmp_path):
    os.mkfifo(placed.workspace / "slow")
    with open(placed.workspace / "big", "wb") as stream:
        stream.truncate(3_000_000_000)
    out = tmp_path / "out"
    out.mkdir()
    started = placed.start("cp", inside("big"), str(out), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: list(out.glob(".crabpot-*.part")))
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=30)
    assert started.returncode == 130
    assert list(out.iterdir()) == []


def test_an_upload_that_is_cut_off_leaves_the_old_file(placed, inside, tmp_path):
    (placed.workspace / "f").write_text("old")
    with open(tmp_path / "big", "wb") as stream:
        stream.truncate(3_000_000_000)
    started = placed.start("cp", str(tmp_path / "big"), inside("f"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: len(list(placed.workspace.iterdir())) > 1 or started.poll() is not None)
    assert started.poll() is None
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=30)
    wait_until(lambda: [path.name for path in placed.workspace.iterdir()] == ["f"])
    with open(placed.workspace / "f", "rb") as stream:
        # No more than that: to show three gigabytes of another file would take all memory.
        assert stream.read(4) == b"old"


def test_a_folder_with_more_than_one_listing_shows_is_refused_not_cut(placed, inside, tmp_path):
    (placed.workspace / "many").mkdir()
    for number in range(2001):
        (placed.workspace / "many" / f"{number:04}").touch()
    ended = placed("cp", inside("many"), str(tmp_path / "out"))
    assert ended.code == 1
    assert "more entries" in ended.said()
