"""Trees that an agent wrote: copied as they are, measured once, and never followed anywhere."""

from __future__ import annotations

import os
import stat

import pytest

from crabpot.errors import LayerError
from crabpot.layers import trees


@pytest.fixture
def tree(tmp_path):
    made = tmp_path / "tree"
    (made / "sub").mkdir(parents=True)
    (made / "file").write_text("content")
    (made / "sub" / "link").symlink_to("/etc/passwd")
    os.link(made / "file", made / "sub" / "same")
    os.mkfifo(made / "fifo")
    (made / os.fsdecode(b"\xff\n")).write_text("odd")
    return made


def test_a_copy_is_what_the_original_is(tree, tmp_path):
    os.mknod(tree / "gone", stat.S_IFCHR, os.makedev(0, 0))
    os.setxattr(tree / "sub", "user.overlay.opaque", b"y")
    (tree / "file").chmod(0o4755)
    os.utime(tree / "sub", (1, 2))
    trees.copy(str(tree), str(tmp_path / "copy"))
    made = tmp_path / "copy"
    assert (made / "file").read_text() == "content"
    assert (made / "file").samefile(made / "sub" / "same")
    assert stat.S_IMODE((made / "file").stat().st_mode) == 0o755
    assert os.readlink(made / "sub" / "link") == "/etc/passwd"
    assert os.getxattr(made / "sub", "user.overlay.opaque") == b"y"
    assert (made / "sub").stat().st_mtime == 2
    gone = (made / "gone").lstat()
    assert stat.S_ISCHR(gone.st_mode)
    assert gone.st_rdev == 0
    assert stat.S_ISFIFO((made / "fifo").lstat().st_mode)
    assert sorted(os.listdir(made)) == sorted(os.listdir(tree))


def test_a_huge_file_of_holes_costs_what_it_has(tree, tmp_path):
    with open(tree / "sparse", "wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 30)
        file.write(b"here")
    trees.copy(str(tree), str(tmp_path / "copy"))
    made = tmp_path / "copy" / "sparse"
    assert made.stat().st_size == 1 << 40
    assert made.stat().st_blocks * 512 < 1 << 20
    with open(made, "rb") as file:
        file.seek(1 << 30)
        assert file.read(4) == b"here"


def test_a_folder_and_a_file_that_their_owner_locked_are_copied_all_the_same(tree, tmp_path):
    (tree / "file").chmod(0o000)
    (tree / "sub").chmod(0o000)
    trees.copy(str(tree), str(tmp_path / "copy"))
    made = tmp_path / "copy"
    assert stat.S_IMODE((made / "file").stat().st_mode) == 0o000
    (made / "sub").chmod(0o700)
    assert os.path.lexists(made / "sub" / "link")
    (tree / "sub").chmod(0o700)


def test_a_size_counts_each_inode_once_and_no_link(tree):
    alone = trees.size_of(str(tree))
    for number in range(50):
        os.link(tree / "file", tree / "sub" / f"again-{number}")
    assert trees.size_of(str(tree)) - alone < 50 * 512


def test_what_is_deeper_than_anything_honest_is_refused(tmp_path):
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    with pytest.raises(LayerError, match="folders deep"):
        trees.size_of(str(tmp_path))
    with pytest.raises(LayerError, match="folders deep"):
        trees.copy(str(tmp_path / "d"), str(tmp_path / "copy"))
