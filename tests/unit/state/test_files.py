"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.state.files import replacing, write_whole

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_file_is_its_owners_alone_and_has_every_byte(tmp_path: Path) -> None:
    write_whole(str(tmp_path / "f"), "a\r\nä\n")
    assert (tmp_path / "f").read_bytes() == "a\r\nä\n".encode()
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_one_that_was_open_to_others_is_closed_to_them_unless_it_is_to_be_like_another(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    file.chmod(0o644)
    write_whole(str(file), "new", like=file.stat())
    assert file.stat().st_mode & 0o777 == 0o644
    write_whole(str(file), "newer")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("newer", 0o600)


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "f").symlink_to("other")
    write_whole(str(tmp_path / "f"), "ours")
    assert ((tmp_path / "other").read_text(), (tmp_path / "f").is_symlink()) == ("theirs", False)


def test_what_cannot_be_written_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(str(tmp_path / "f"), "half\ud800")
    assert (os.listdir(tmp_path), (tmp_path / "f").read_text()) == (["f"], "old")


def test_a_draft_of_one_name_takes_the_place_of_what_a_killed_process_left(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "f.part").symlink_to("theirs")
    with replacing(str(tmp_path / "f"), draft=str(tmp_path / "f.part")) as stream:
        stream.write(b"whole")
        assert not (tmp_path / "f").exists()
    assert sorted(os.listdir(tmp_path)) == ["f", "theirs"]
    assert ((tmp_path / "f").read_text(), (tmp_path / "theirs").read_text()) == ("whole", "theirs")


def test_a_draft_that_is_given_up_is_removed(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")

    def give_up() -> None:
        with replacing(str(tmp_path / "f")) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give_up()
    assert (os.listdir(tmp_path), (tmp_path / "f").read_text()) == (["f"], "old")
