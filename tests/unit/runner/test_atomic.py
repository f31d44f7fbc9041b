"""write: whole or not at all, with mode and owner kept and nothing left behind."""

from __future__ import annotations

import base64
import errno
import os
import resource
import signal
import stat

import pytest

from crabpot.runner.files import file_tools
from tests.unit.runner.file_checks import as_nobody, code, leftovers, peak_kib


def test_write_makes_parents_and_says_whether_it_created(ctx, ws) -> None:
    assert file_tools.write({"path": "a/b/c", "content": "häh"}, ctx)["data"] == {"size": 4, "created": True}
    assert file_tools.write({"path": "a/b/c", "content": ""}, ctx)["data"] == {"size": 0, "created": False}
    binary = base64.b64encode(bytes(range(256))).decode()
    file_tools.write({"path": "bin", "content": binary[:100] + "\n" + binary[100:], "encoding": "base64"}, ctx)
    assert (ws / "bin").read_bytes() == bytes(range(256))
    assert leftovers(ws) == []
    assert code(file_tools.write, {"path": "bin/x", "content": ""}, ctx) == "not_a_directory"
    assert code(file_tools.write, {"path": "new/", "content": ""}, ctx) == "is_directory"


def test_write_keeps_mode_and_owner_and_a_new_file_takes_the_umask(ctx, ws) -> None:
    (ws / "f").write_text("old")
    os.chmod(ws / "f", 0o751)
    owner = (1234, 4321) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(ws / "f", *owner)
    file_tools.write({"path": "f", "content": "new"}, ctx)
    state = os.stat(ws / "f")
    assert (stat.S_IMODE(state.st_mode), (state.st_uid, state.st_gid)) == (0o751, owner)
    before = os.umask(0o027)
    try:
        file_tools.write({"path": "g", "content": ""}, ctx)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(ws / "g").st_mode) == 0o640


def test_a_reader_of_the_old_version_keeps_it_whole(ctx, ws) -> None:
    (ws / "f").write_text("old version")
    with open(ws / "f") as reader:
        file_tools.write({"path": "f", "content": "new"}, ctx)
        assert reader.read() == "old version"


def test_append_adds_at_the_end_and_creates(ctx, ws) -> None:
    assert file_tools.write({"path": "d/f", "content": "a\n", "append": True}, ctx)["data"] == {
        "size": 2,
        "created": True,
    }
    inode = os.stat(ws / "d/f").st_ino
    assert file_tools.write({"path": "d/f", "content": "b\n", "append": True}, ctx)["data"] == {
        "size": 4,
        "created": False,
    }
    assert (ws / "d/f").read_text() == "a\nb\n"
    assert os.stat(ws / "d/f").st_ino == inode


def test_a_dangling_link_inside_is_written_through(ctx, ws) -> None:
    (ws / "link").symlink_to("new/target")
    assert file_tools.write({"path": "link", "content": "x"}, ctx)["data"]["created"] is True
    assert (ws / "new/target").read_text() == "x"
    assert (ws / "link").is_symlink()


def test_input_comes_in_pieces_and_shows_only_after_commit(ctx, ws) -> None:
    (ws / "f").write_text("old")
    writer = file_tools.InputWriter({"path": "f"}, ctx)
    for _ in range(3):
        writer.write(b"\xff\x00")
    assert (ws / "f").read_text() == "old"
    assert writer.commit() == {"size": 6, "created": False}
    writer.abort()
    assert (ws / "f").read_bytes() == b"\xff\x00" * 3
    writer = file_tools.InputWriter({"path": "f", "encoding": "base64"}, ctx)
    writer.write(b"half")
    writer.abort()
    writer.abort()
    assert (ws / "f").read_bytes() == b"\xff\x00" * 3
    assert leftovers(ws) == []
    assert code(file_tools.InputWriter, {"path": "f", "content": "x"}, ctx) == "invalid_arguments"


def test_an_aborted_append_is_taken_back(ctx, ws) -> None:
    (ws / "f").write_text("old")
    writer = file_tools.InputWriter({"path": "f", "append": True}, ctx)
    writer.write(b"more")
    writer.abort()
    assert (ws / "f").read_text() == "old"
    writer = file_tools.InputWriter({"path": "new", "append": True}, ctx)
    writer.write(b"more")
    writer.abort()
    assert not (ws / "new").exists()
    writer = file_tools.InputWriter({"path": "f", "append": True}, ctx)
    writer.write(b"more")
    with open(ws / "f", "ab") as other:
        other.write(b"!")
    writer.abort()
    assert (ws / "f").read_text() == "oldmore!"


def test_input_is_written_in_constant_memory(ctx, ws) -> None:
    def run() -> None:
        writer = file_tools.InputWriter({"path": "/dev/shm/crabpot-test-input"}, ctx)
        for _ in range(64):
            writer.write(bytes(1 << 20))
        assert writer.commit()["size"] == 64 << 20

    try:
        assert peak_kib(run) < 16 << 10
    finally:
        os.unlink("/dev/shm/crabpot-test-input")


def test_the_file_size_limit_is_a_disk_limit_and_leaves_nothing(ctx, ws) -> None:
    (ws / "f").write_bytes(b"old")

    def run() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        codes = [
            code(file_tools.write, {"path": "f", "content": "x" * 2000, "append": append}, ctx)
            for append in (False, True)
        ]
        return 0 if codes == ["disk_limit", "disk_limit"] else 1

    os.chmod(ws, 0o777)
    os.chmod(ws / "f", 0o666)
    pid = os.fork()
    if pid == 0:
        os._exit(run())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (ws / "f").read_bytes() == b"old"
    assert leftovers(ws) == []


def open_up(ws, tmp_path) -> None:
    """Lets a user without privileges reach and change the workspace."""
    os.chmod(ws, 0o777)
    if os.geteuid() == 0:
        for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
            os.chmod(folder, 0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a file of another user")
def test_who_may_not_give_a_file_away_keeps_its_mode_but_no_set_user_id(ctx, ws, tmp_path) -> None:
    open_up(ws, tmp_path)
    (ws / "f").write_text("root's")
    os.chmod(ws / "f", 0o4777)

    def run() -> int:
        return 0 if file_tools.write({"path": "f", "content": "new"}, ctx)["data"]["created"] is False else 1

    assert as_nobody(run) == 0
    state = os.stat(ws / "f")
    assert (stat.S_IMODE(state.st_mode), state.st_uid, (ws / "f").read_text()) == (0o777, 65534, "new")


def test_permissions_are_the_kernel_s_even_where_a_rename_would_get_around_them(ctx, ws, tmp_path) -> None:
    open_up(ws, tmp_path)
    (ws / "secret").write_text("x")
    os.chmod(ws / "secret", 0o600 if os.geteuid() == 0 else 0)
    (ws / "readonly").write_text("x")
    os.chmod(ws / "readonly", 0o444)
    (ws / "shut").mkdir(mode=0o755 if os.geteuid() == 0 else 0o555)

    def run() -> int:
        got = [
            code(file_tools.read, {"path": "secret"}, ctx),
            code(file_tools.write, {"path": "readonly", "content": "y"}, ctx),
            code(file_tools.write, {"path": "readonly", "content": "y", "append": True}, ctx),
            code(file_tools.edit, {"path": "readonly", "old": "x", "new": "y"}, ctx),
            code(file_tools.write, {"path": "shut/new", "content": "y"}, ctx),
        ]
        return 0 if set(got) == {"permission_denied"} else 1

    assert as_nobody(run) == 0
    assert (ws / "readonly").read_text() == "x"


def test_a_read_only_file_system_says_so(ctx) -> None:
    try:
        os.close(os.open("/sys/crabpot", os.O_CREAT | os.O_WRONLY))
    except OSError as error:
        wanted = {errno.EROFS: "read_only"}.get(error.errno, "permission_denied")
    assert code(file_tools.write, {"path": "/sys/crabpot", "content": ""}, ctx) == wanted
