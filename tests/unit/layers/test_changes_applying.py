"""Changes of a layer: read, chosen, applied and undone, through a real overlay and in a copy."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from crabpot.errors import LayerError
from crabpot.layers.changes.applying import apply, undo
from crabpot.layers.changes.reading import changes
from tests.support.layers import Project, picture, project

Mechanism = Literal["overlay", "copy"]

pytestmark = pytest.mark.parametrize("mechanism", ["overlay", "copy"])

_SOCKET = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'"
_WORK = """
echo more >> src/a.py
printf 'new\\n' > added.txt
rm gone.txt
rm -r old
mkdir -p deep/er && echo x > deep/er/file
chmod 755 run.sh
ln -s src/a.py link
mv name.txt renamed.txt
"""


def _project(place: Path, mechanism: Mechanism) -> Project:
    return project(
        place,
        mechanism,
        src__a_dot_py="a\n",
        gone_dot_txt="gone\n",
        old__one="1",
        old__in__two="2",
        run_dot_sh="#!/bin/sh\n",
        name_dot_txt="name\n",
    )


def _listed(one: Project) -> dict[str, tuple[str, str]]:
    return {found.path: (found.action, found.kind) for found in changes(one.layer)}


def _left(result: Any) -> dict[str, str]:
    return {one.path: one.why for one in result.left}


def test_a_session_that_does_everything_is_listed_and_leaves_the_host_alone(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    one = _project(tmp_path, mechanism)
    before = picture(one.folder)
    one.agent(_WORK)
    assert _listed(one) == {
        "src/a.py": ("modified", "file"),
        "added.txt": ("added", "file"),
        "gone.txt": ("deleted", "file"),
        "old": ("deleted", "folder"),
        "old/one": ("deleted", "file"),
        "old/in": ("deleted", "folder"),
        "old/in/two": ("deleted", "file"),
        "deep": ("added", "folder"),
        "deep/er": ("added", "folder"),
        "deep/er/file": ("added", "file"),
        "run.sh": ("modified", "file"),
        "link": ("added", "link"),
        "name.txt": ("deleted", "file"),
        "renamed.txt": ("added", "file"),
    }
    assert not any(found.conflict or found.gate or found.refused for found in changes(one.layer))
    assert picture(one.folder) == before


def test_an_apply_brings_everything_and_an_undo_takes_it_back(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    before = {path: (facts[0], facts[4]) for path, facts in picture(one.folder).items()}
    one.agent(_WORK)
    listed = _listed(one)
    result = apply(one.layer)
    assert set(result.applied) == set(listed)
    assert not result.left
    assert result.undo
    assert (one.folder / "src/a.py").read_text() == "a\nmore\n"
    assert (one.folder / "deep/er/file").read_text() == "x\n"
    assert os.readlink(one.folder / "link") == "src/a.py"
    assert (one.folder / "run.sh").stat().st_mode & 0o777 == 0o755
    assert not (one.folder / "old").exists()
    assert not (one.folder / "gone.txt").exists()
    assert not list(one.folder.glob(".crabpot-*"))
    assert _listed(one) == {}

    reverted = undo(one.layer)
    assert set(reverted.applied) == set(listed)
    assert not reverted.left
    assert {path: (facts[0], facts[4]) for path, facts in picture(one.folder).items()} == before
    assert _listed(one) == listed
    assert not any(found.conflict for found in changes(one.layer))
    with pytest.raises(LayerError, match="nothing was applied"):
        undo(one.layer)


def test_a_path_limits_an_apply_and_brings_its_folders(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent(_WORK)
    result = apply(one.layer, ["deep/er/file", "gone.txt"])
    assert set(result.applied) == {"deep", "deep/er", "deep/er/file", "gone.txt"}
    assert "added.txt" in _listed(one)
    assert "deep" not in _listed(one)
    with pytest.raises(LayerError, match="nothing changed there"):
        apply(one.layer, ["nowhere"])


def test_what_the_host_would_execute_waits_for_its_own_word(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent("mkdir .vscode; echo {} > .vscode/tasks.json; echo x > .envrc; echo y > plain; ln -s /etc/passwd out")
    result = apply(one.layer)
    assert _left(result) == {".vscode": "gate", ".vscode/tasks.json": "gate", ".envrc": "gate", "out": "gate"}
    assert result.applied == ("plain",)
    assert not (one.folder / ".envrc").exists()
    assert set(apply(one.layer, gated=True).applied) == {".vscode", ".vscode/tasks.json", ".envrc", "out"}
    assert os.readlink(one.folder / "out") == "/etc/passwd"


def test_what_changed_on_the_host_is_a_conflict_and_stays(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent("echo agent > src/a.py; rm gone.txt; rm -r old; echo agent > new; echo agent > run.sh")
    time.sleep(0.02)
    (one.folder / "src/a.py").write_text("person\n")
    (one.folder / "gone.txt").write_text("person\n")
    (one.folder / "old/one").write_text("person\n")
    (one.folder / "new").write_text("person\n")
    result = apply(one.layer)
    assert _left(result) == dict.fromkeys(("src/a.py", "gone.txt", "old/one", "old", "new"), "conflict")
    assert set(result.applied) == {"run.sh", "old/in", "old/in/two"}
    assert [(one.folder / name).read_text() for name in ("src/a.py", "old/one", "new")] == ["person\n"] * 3


def test_what_apply_itself_wrote_is_no_conflict(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent("echo 1 > src/a.py")
    apply(one.layer)
    one.agent("echo 2 > src/a.py; echo 2 > other")
    assert set(apply(one.layer).applied) == {"src/a.py", "other"}
    assert (one.folder / "src/a.py").read_text() == "2\n"


def test_an_undo_leaves_what_changed_since(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent("echo agent > src/a.py; echo agent > new; mkdir d; echo x > d/x")
    apply(one.layer)
    (one.folder / "src/a.py").write_text("person\n")
    (one.folder / "d/mine").write_text("person\n")
    result = undo(one.layer)
    assert _left(result) == {"src/a.py": "conflict", "d": "refused"}
    assert (one.folder / "src/a.py").read_text() == "person\n"
    assert (one.folder / "d/mine").exists()
    assert not (one.folder / "d/x").exists()
    assert not (one.folder / "new").exists()


def test_one_path_of_an_apply_is_undone_and_the_others_later(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    before = {path: (facts[0], facts[4]) for path, facts in picture(one.folder).items()}
    one.agent(_WORK)
    listed = _listed(one)
    apply(one.layer)
    back = ("old", "old/in", "old/in/two", "src/a.py")
    with pytest.raises(LayerError, match="nowhere: the last apply changed nothing there"):
        undo(one.layer, ["nowhere"])
    assert undo(one.layer, ["src/a.py", "old/in/two"]).applied == back
    assert (one.folder / "src/a.py").read_text() == "a\n"
    assert [path.name for path in (one.folder / "old").iterdir()] == ["in"]
    assert not (one.folder / "gone.txt").exists()
    assert set(_listed(one)) == set(back)
    assert set(undo(one.layer).applied) == set(listed) - set(back)
    assert {path: (facts[0], facts[4]) for path, facts in picture(one.folder).items()} == before
    assert _listed(one) == listed


def test_what_an_undo_leaves_can_be_undone_once_it_is_as_it_was_applied(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent("echo agent > src/a.py; mkdir d; echo x > d/x")
    apply(one.layer)
    (one.folder / "d/mine").write_text("person\n")
    assert _left(undo(one.layer)) == {"d": "refused"}
    (one.folder / "d/mine").unlink()
    assert undo(one.layer).applied == ("d",)
    assert not (one.folder / "d").exists()


def test_types_may_change_in_both_directions(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    before = {path: (facts[0], facts[4]) for path, facts in picture(one.folder).items()}
    one.agent(
        "rm -r old; echo file > old; rm gone.txt; mkdir gone.txt; echo in > gone.txt/in; ln -sf a.py src/l; rm run.sh; ln -s src run.sh"
    )
    assert not apply(one.layer).left
    assert (one.folder / "old").read_text() == "file\n"
    assert (one.folder / "gone.txt/in").read_text() == "in\n"
    assert os.readlink(one.folder / "run.sh") == "src"
    assert not undo(one.layer).left
    assert {path: (facts[0], facts[4]) for path, facts in picture(one.folder).items()} == before


def test_a_folder_made_anew_hides_what_was_in_it(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent("rm -r old; mkdir old; echo 3 > old/three")
    assert _listed(one) == {
        "old/one": ("deleted", "file"),
        "old/in": ("deleted", "folder"),
        "old/in/two": ("deleted", "file"),
        "old/three": ("added", "file"),
    }
    assert not apply(one.layer).left
    assert sorted(os.listdir(one.folder / "old")) == ["three"]
    assert _listed(one) == {}
    (one.folder / "old/later").write_text("person")
    one.agent("echo 4 > old/four")
    assert "old/four" in _listed(one)


def test_nothing_special_arrives(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent("mkfifo pipe; cp /bin/true suid; chmod 4755 suid; echo ok > ok; " + _SOCKET)
    if os.geteuid() == 0:
        os.mknod(Path(one.layer.content) / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    result = apply(one.layer, gated=True)
    wanted = {"pipe", "suid", "sock"} | ({"device"} if os.geteuid() == 0 else set())
    assert _left(result) == dict.fromkeys(wanted, "refused")
    assert result.applied == ("ok",)
    assert not [path for path in one.folder.iterdir() if path.name in wanted]


def test_a_repository_never_arrives_as_files(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent(
        "mkdir -p .git/hooks sub/.git/hooks .GIT; echo evil > .git/hooks/pre-commit; echo evil > sub/.git/hooks/x; "
        "printf '[core]\\n\\tfsmonitor = ./evil\\n' > .git/config; echo x > .git/index; echo y > .GIT/config"
    )
    result = apply(one.layer, gated=True)
    assert _left(result) == {
        ".git/config": "refused",
        ".git/hooks/pre-commit": "refused",
        "sub/.git": "refused",
        ".GIT": "refused",
    }
    assert not list(one.folder.rglob(".[gG][iI][tT]"))


def test_names_may_hold_anything(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent(
        r"""echo 1 > $'new\nline'; echo 2 > $'invalid\xff'; echo 3 > ' -x "q"'; echo 4 > README; mv name.txt NAME.TXT"""
    )
    assert not apply(one.layer).left
    names = os.listdir(os.fsencode(one.folder))
    assert {b"new\nline", b"invalid\xff", b' -x "q"', b"NAME.TXT"} <= set(names)
    assert b"name.txt" not in names


def test_a_link_on_the_host_is_never_followed(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("mine\n")
    one.agent("echo agent > src/a.py; echo agent > src/b.py; echo agent > gone.txt")
    time.sleep(0.02)
    for path in (one.folder / "src").iterdir():
        path.unlink()
    (one.folder / "src").rmdir()
    (one.folder / "src").symlink_to(outside)
    (one.folder / "gone.txt").unlink()
    (one.folder / "gone.txt").symlink_to(outside / "a.py")
    result = apply(one.layer)
    assert set(_left(result)) >= {"src/a.py", "src/b.py", "gone.txt"}
    assert not result.applied
    assert sorted(os.listdir(outside)) == ["a.py"]
    assert (outside / "a.py").read_text() == "mine\n"


def test_a_fifo_in_the_way_blocks_nobody(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent("echo agent > gone.txt; mkdir d; echo x > d/x")
    time.sleep(0.02)
    (one.folder / "gone.txt").unlink()
    os.mkfifo(one.folder / "gone.txt")
    os.mkfifo(one.folder / "d")
    assert set(_left(apply(one.layer))) == {"gone.txt", "d", "d/x"}


def test_a_folder_that_was_replaced_is_not_changed(tmp_path: Path, mechanism: Mechanism) -> None:
    one = _project(tmp_path, mechanism)
    one.agent("echo agent > new")
    one.folder.rename(tmp_path / "moved")
    with pytest.raises(LayerError, match="No such file"):
        changes(one.layer)
    one.folder.mkdir()
    with pytest.raises(LayerError, match="replaced by another folder"):
        apply(one.layer)
    assert not list(one.folder.iterdir())


def test_modes_that_hide_things_are_refused_with_the_way_out(tmp_path: Path, mechanism: Mechanism) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads whatever its mode says")
    one = _project(tmp_path, mechanism)
    one.agent("echo x > secret; chmod 0 secret; mkdir shut; echo x > shut/x; chmod 0 shut")
    found = {one.path: one.refused for one in changes(one.layer)}
    assert "chmod u+r" in str(found["secret"])
    assert "chmod u+rx" in str(found["shut"])
