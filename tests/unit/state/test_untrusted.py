"""Files that an agent may have written: opened without waiting, without links, without end."""

from __future__ import annotations

import errno
import os
import socket
import threading

import pytest

from crabpot.state.untrusted import open_regular, read_handle, read_regular


def refusal(path, **more):
    with pytest.raises(OSError, match="Errno") as refused:
        read_regular(str(path), most=100, **more)
    return refused.value


@pytest.fixture
def folder(tmp_path):
    handle = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield handle
    os.close(handle)


def test_a_regular_file_is_read(tmp_path):
    (tmp_path / "note").write_bytes(b"x" * 100)
    assert read_regular(str(tmp_path / "note"), most=100) == b"x" * 100


@pytest.mark.parametrize("follow", [False, True])
def test_a_fifo_without_a_writer_keeps_nobody_waiting(tmp_path, follow):
    os.mkfifo(tmp_path / "alternates")
    assert refusal(tmp_path / "alternates", follow=follow).strerror == "is not a regular file"


def test_a_folder_a_device_and_a_socket_are_no_files_to_read(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert refusal(tmp_path / "s").errno == errno.ENXIO
    assert refusal(tmp_path).errno == errno.EISDIR
    assert refusal("/dev/zero").strerror == "is not a regular file"


def test_a_link_is_not_followed_unless_a_person_named_it(tmp_path):
    (tmp_path / "real").write_text("meant")
    (tmp_path / "link").symlink_to("real")
    assert refusal(tmp_path / "link").errno == errno.ELOOP
    assert read_regular(str(tmp_path / "link"), most=100, follow=True) == b"meant"


def test_a_sparse_giant_is_refused_before_a_byte_of_it_is_read(tmp_path):
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)
    assert refusal(tmp_path / "sparse").strerror == "is larger than 100 bytes"


def test_a_file_that_hides_its_size_is_read_no_further_than_the_bound():
    # /proc tells a size of 0 for everything, as a file does that grows behind the look at it.
    assert refusal("/proc/self/status").errno == errno.EFBIG


def test_beneath_a_held_folder_no_part_may_be_a_link(tmp_path, folder):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("here")
    (tmp_path / "away").symlink_to("/etc")
    assert read_regular("a/b/file", most=100, folder=folder) == b"here"
    assert refusal("away/hostname", folder=folder).errno == errno.ENOTDIR
    for path in ("../x", "/etc/hostname", "a/../a/b/file", "a//b", "", "."):
        assert refusal(path, folder=folder).errno == errno.EINVAL


def test_refusing_leaves_no_descriptor_behind(tmp_path, folder):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a").mkdir()
    before = os.listdir("/proc/self/fd")
    for path in ("pipe", "a/missing", "missing/file", "a"):
        with pytest.raises(OSError, match="Errno"):
            open_regular(path, folder=folder)
    assert os.listdir("/proc/self/fd") == before


def test_a_handle_that_is_held_is_read_within_the_same_bound(tmp_path):
    (tmp_path / "note").write_bytes(b"x" * 101)
    handle = open_regular(str(tmp_path / "note"))
    try:
        with pytest.raises(OSError, match="larger than 100 bytes"):
            read_handle(handle, "note", most=100)
    finally:
        os.close(handle)


def ended(work):
    """Run what might wait for ever; tell how it ended, or that it did not."""
    outcome = []

    def run():
        try:
            outcome.append(work())
        except Exception as error:  # noqa: BLE001  whatever it is, it ended
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    return outcome[0] if outcome else "it waits for ever"


def _fingerprint(path):
    from crabpot.doors.local.server import fingerprint

    return fingerprint(path)


def _written_down(path):
    from crabpot.egress.approval import write_down
    from crabpot.egress.destinations import read_authority

    return write_down(path, "agents.defaults.sandbox.network", read_authority("example.com:443"))


def _profile(path):
    from crabpot.backends.docker.profile import read

    return read(path)


def _context(path):
    from crabpot.backends.docker.location import _read

    return _read(path)


def _interpreters(path):
    from crabpot.backends.docker.image import Interpreters

    os.rename(path, f"{os.path.dirname(path)}/images.json")
    return Interpreters(os.path.dirname(path))._recall()


def _note(path):
    from crabpot.sandboxes.private_folders import _read

    return _read(path)


@pytest.mark.parametrize("read", [_fingerprint, _written_down, _profile, _context, _interpreters, _note])
def test_no_reader_of_the_gateway_waits_for_a_fifo(tmp_path, read):
    os.mkfifo(tmp_path / "file")
    found = ended(lambda: read(str(tmp_path / "file")))
    assert found in (None, {}) or (isinstance(found, Exception) and "is not a regular file" in str(found)), found


@pytest.mark.parametrize("read", [_fingerprint, _written_down, _profile, _context, _interpreters, _note])
def test_no_reader_of_the_gateway_takes_a_sparse_giant_into_memory(tmp_path, read):
    with open(tmp_path / "file", "wb") as file:
        file.truncate(1 << 40)
    found = ended(lambda: read(str(tmp_path / "file")))
    assert found in (None, {}) or (isinstance(found, Exception) and "larger than" in str(found)), found
