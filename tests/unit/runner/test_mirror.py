"""A folder on two machines: all of it arrives, changes come back, and nothing that is sent leads out of its folder."""

from __future__ import annotations

import io
import os
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.runner.files import mirror, records
from crabpot.runner.files.records import Broken
from crabpot.runner.files.taking import DEEPEST, FOLDER, Taking

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Ends:
    """Both ends of a mirror: the gateway's folder, the pod's, and the stream between them."""

    def __init__(self, here: Path, there: Path, drafts: Path) -> None:
        self.sock, self._far = socket.socketpair()
        self.sock.settimeout(10)
        self.reading, self.writing = self.sock.makefile("rb"), self.sock.makefile("wb")
        self.there, self.here = there, here
        self._top, self._drafts = os.open(here, FOLDER), os.open(drafts, FOLDER)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        mirror.send(self.writing, self._top, {})
        assert records.header(self.reading) == {"kind": "end"}

    def _serve(self) -> None:
        with (
            suppress(ConnectionError),
            self._far,
            self._far.makefile("rb") as reading,
            self._far.makefile("wb") as writing,
        ):
            mirror.serve(str(self.there), reading, writing)

    def bring_back(self, most: int | None = None) -> None:
        """Ask for what changed, and take it."""
        records.put(self.writing, {"kind": "changes"})
        Taking(self._top, drafts=self._drafts, most=most).take(self.reading)

    def end(self) -> None:
        """End the far end."""
        self.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        for one in (self.reading, self.writing, self.sock):
            one.close()
        os.close(self._top)
        os.close(self._drafts)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    """Return two ends that have the same files."""
    here, there, drafts = tmp_path / "here", tmp_path / "there", tmp_path / "drafts"
    for one in (here, there, drafts):
        one.mkdir()
    (here / "inner" / "deep").mkdir(parents=True)
    (here / "inner" / "file").write_bytes(b"content" * 100_000)
    (here / "inner" / "program").write_text("#!/bin/sh\n")
    (here / "inner" / "program").chmod(0o755)
    (here / "link").symlink_to("/etc/passwd")
    (here / "odd\udcff name").write_text("odd")
    made = Ends(here, there, drafts)
    yield made
    made.end()


def listed(folder: Path) -> dict[str, Any]:
    """Return everything in a folder, with its mode and content."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = os.readlink(path) if path.is_symlink() else None if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(folder))] = (mode, content)
    return found


def test_all_of_it_arrives_as_it_is(ends: Ends) -> None:
    assert listed(ends.there) == listed(ends.here)
    assert len(listed(ends.there)) == 6
    assert (ends.there / "inner/file").stat().st_mtime_ns == (ends.here / "inner/file").stat().st_mtime_ns


def test_changes_of_every_kind_come_back(ends: Ends) -> None:
    there = ends.there
    (there / "new").mkdir()
    (there / "new" / "file").write_text("new")
    (there / "inner" / "file").unlink()
    (there / "inner" / "file").mkdir()
    (there / "inner" / "program").chmod(0o600)
    (there / "inner" / "deep").rmdir()
    (there / "inner" / "deep").symlink_to("nowhere")
    (there / "link").unlink()
    (there / "link").write_text("a file now")
    os.mkfifo(there / "fifo")
    (there / "locked").write_text("locked")
    (there / "locked").chmod(0)
    ends.bring_back()
    (there / "fifo").unlink()
    (there / "locked").chmod(0o600)
    assert listed(ends.here) == listed(there)


def test_a_file_that_changes_again_and_again_is_as_it_was_last(ends: Ends) -> None:
    """Within one tick of the clock, and of the same size: nothing of it shows in the file's times."""
    for number in range(50):
        (ends.there / "count").write_text(f"{number:04}")
        ends.bring_back()
        assert (ends.here / "count").read_text() == f"{number:04}"


def test_what_did_not_change_is_not_sent(ends: Ends) -> None:
    ends.bring_back(most=0)
    (ends.there / "one").write_text("1")
    ends.bring_back(most=600)
    assert (ends.here / "one").read_text() == "1"


def test_no_more_comes_than_may(ends: Ends) -> None:
    (ends.there / "large").write_bytes(bytes(1 << 20))
    with pytest.raises(Broken, match=r"limits\.disk"):
        ends.bring_back(most=1 << 19)
    assert not (ends.here / "large").exists()


def test_what_is_too_deep_is_told(ends: Ends) -> None:
    at = os.open(ends.there, FOLDER)
    for _ in range(DEEPEST + 1):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", FOLDER, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    with pytest.raises(Broken, match="folders deep"):
        ends.bring_back()


def said(*written: dict[str, Any] | bytes) -> io.BytesIO:
    """Return a stream with these records, and raw bytes, in it."""
    made = io.BytesIO()
    for one in written:
        if isinstance(one, bytes):
            made.write(one)
        else:
            records.write(made, one)
    records.put(made, {"kind": "end"})
    made.seek(0)
    return made


def a_file(path: str, content: bytes = b"planted", **more: Any) -> tuple[dict[str, Any], bytes]:
    record = {"kind": "file", "path": path, "mode": 0o644, "mtime_ns": 1, **more}
    return record, struct.pack("!I", len(content)) + content + struct.pack("!I", 0)


@pytest.mark.parametrize(
    "path",
    ["../out", "/etc/planted", "a/../../out", "a//b", ".", "", "a/.", "x\0y", "\ud800", "d/" * 300 + "d", "y" * 5000],
)
def test_a_path_that_leads_out_is_refused(tmp_path: Path, path: str) -> None:
    top = tmp_path / "top"
    top.mkdir()
    for record in (a_file(path), ({"kind": "folder", "path": path, "mode": 0o755},), ({"kind": "gone", "path": path},)):
        with pytest.raises(Broken):
            Taking(os.open(top, FOLDER)).take(said(*record))
    assert list(tmp_path.rglob("*")) == [top]


def test_no_link_is_followed(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    for one in (top, outside):
        one.mkdir()
    (outside / "kept").write_text("kept")
    link = {"kind": "link", "path": "link", "mode": 0, "target": str(outside)}
    for then in (a_file("link/planted"), ({"kind": "folder", "path": "link/d", "mode": 0o755},)):
        with pytest.raises(OSError, match=r"directory"):
            Taking(os.open(top, FOLDER)).take(said(link, *then))
    Taking(os.open(top, FOLDER)).take(said(link, {"kind": "gone", "path": "link/kept"}))
    Taking(os.open(top, FOLDER)).take(said(link, *a_file("link")))
    assert (top / "link").read_text() == "planted"
    assert {path.name for path in outside.iterdir()} == {"kept"}


def test_nothing_gets_setuid_or_becomes_unreadable(tmp_path: Path) -> None:
    top = os.open(tmp_path, FOLDER)
    Taking(top).take(said(*a_file("s", mode=0o6777), {"kind": "folder", "path": "d", "mode": 0o3000}))
    assert (tmp_path / "s").stat().st_mode & 0o7777 == 0o777
    assert (tmp_path / "d").stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize(
    "sent",
    [
        ({"kind": "device", "path": "x"},),
        ({"kind": "link", "path": "x", "target": ""},),
        ({"kind": "link", "path": "x", "target": "a\0b"},),
        a_file("x", mode="0644"),
        a_file("x", mtime_ns=None),
        (struct.pack("!I", 4) + b"[[[[",),
        (struct.pack("!I", 60000) + b"[" * 60000,),
        (struct.pack("!I", 2) + b"[]",),
        (struct.pack("!I", 1 << 31),),
        ({"kind": "file", "path": "x", "mode": 0, "mtime_ns": 0}, struct.pack("!I", 1 << 30)),
        ({"path": "x"},),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, sent: tuple[Any, ...]) -> None:
    with pytest.raises(Broken):
        Taking(os.open(tmp_path, FOLDER)).take(said(*sent))


def test_a_stream_that_ends_within_a_file_leaves_the_old_one(tmp_path: Path) -> None:
    top, drafts = tmp_path / "top", tmp_path / "drafts"
    for one in (top, drafts):
        one.mkdir()
    (top / "x").write_text("old")
    half = said(*a_file("x", b"new content")).getvalue()[:-40]
    with pytest.raises(EOFError):
        Taking(os.open(top, FOLDER), drafts=os.open(drafts, FOLDER)).take(io.BytesIO(half))
    assert (top / "x").read_text() == "old"
