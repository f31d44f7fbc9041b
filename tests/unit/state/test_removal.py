"""What an agent leaves is removed, however it is made, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import crabpot
from crabpot.state.removal import remove_tree


def test_a_tree_goes_whole(tmp_path):
    top = tmp_path / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_text("x")
    (top / "empty").mkdir()
    os.mkfifo(top / "a" / "pipe")
    remove_tree(str(top))
    assert not top.exists()


def test_links_are_removed_and_never_followed(tmp_path):
    kept = tmp_path / "kept"
    (kept / "sub").mkdir(parents=True)
    (kept / "sub" / "file").write_text("x")
    top = tmp_path / "top"
    top.mkdir()
    (top / "to-folder").symlink_to(kept)
    (top / "to-sub").symlink_to(kept / "sub")
    (top / "to-file").symlink_to(kept / "sub" / "file")
    (top / "nowhere").symlink_to("/nonexistent")
    remove_tree(str(top))
    assert (kept / "sub" / "file").read_text() == "x"
    assert not top.exists()


def test_a_top_that_is_a_link_is_refused(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    (tmp_path / "top").symlink_to(kept)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        remove_tree(str(tmp_path / "top"))
    assert (kept / "file").exists()


def test_a_tree_deeper_than_the_stack_the_open_files_and_a_path_goes(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deep-" + "x" * 50, dir_fd=here)
        inner = os.open("deep-" + "x" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    remove_tree(str(top))
    assert not top.exists()


def test_names_that_the_removal_itself_uses_are_no_obstacle(tmp_path):
    top = tmp_path / "top"
    for name in ("1", "2", "3"):
        (top / name / "1" / "2").mkdir(parents=True)
        (top / name / "1" / "2" / "1").write_text("x")
    (top / "4").write_text("x")
    (top / "deep" / "a" / "b").mkdir(parents=True)
    remove_tree(str(top))
    assert not top.exists()


def test_names_that_are_no_text_go(tmp_path):
    top = os.fsencode(tmp_path / "top")
    os.makedirs(top + b"/\xff\xfe/\n")
    with open(top + b"/\xff\xfe/\n/ \x01", "wb"):
        pass
    remove_tree(str(tmp_path / "top"))
    assert not os.path.exists(top)


TAKEN_AWAY = """
import os, sys
sys.path[:0] = [sys.argv[2]]
from crabpot.state.removal import remove_tree
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
top = sys.argv[1] + "/top"
os.makedirs(top + "/a/b/c")
open(top + "/a/b/c/file", "w").close()
os.makedirs(top + "/d/e")
for path in ("/a/b/c", "/a/b", "/a", "/d/e", "/d", ""):
    os.chmod(top + path, 0)
remove_tree(top)
assert not os.path.exists(top)
"""


def test_folders_whose_permissions_were_taken_away_go_for_an_ordinary_user(open_folder):
    source = os.path.dirname(os.path.dirname(crabpot.__file__))
    python = "/usr/bin/python3" if os.getuid() == 0 else sys.executable
    subprocess.run([python, "-I", "-c", TAKEN_AWAY, str(open_folder), source], check=True, timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who has no subordinate ids")
def test_who_has_no_subordinate_ids_is_told_and_nothing_goes(open_folder):
    from tests.support.ordinary_user import UID, interpreter, readable_source

    kept = open_folder / "kept"
    kept.mkdir()
    os.chown(kept, UID, UID)
    program = "import sys; from crabpot.state.removal import remove_mapped_tree; remove_mapped_tree(sys.argv[1])"
    with readable_source() as (environ, home):
        ended = subprocess.run(
            [interpreter(), "-c", program, str(kept)],
            env=environ,
            cwd=home,
            user=UID,
            group=UID,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "PermissionError" in ended.stderr
    assert kept.exists()
