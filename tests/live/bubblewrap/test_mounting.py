"""Workspaces and binds: whose they are, and what cannot be slipped in."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.people import Person


@pytest.fixture
def folder(person: Person) -> Iterator[Path]:
    """A place that the person owns, and that others can reach."""
    made = Path(os.path.realpath(tempfile.mkdtemp(prefix="crabpot-place-")))
    made.chmod(0o755)
    os.chown(made, person.uid, person.uid)
    yield made
    shutil.rmtree(made)


def _make(path: Path, uid: int) -> Path:
    path.mkdir()
    os.chown(path, uid, uid)
    return path


def _attempt(person: Person, **changes: object) -> dict[str, str]:
    found: dict[str, str] = person.run("attempt", json.dumps(changes))
    return found


def _writer(person: Person) -> int:
    """Return a user that a sandbox of this person's can run as."""
    return 4321 if person.uid == 0 else person.uid


def test_a_rw_workspace_is_written_as_its_owner(person: Person, folder: Path) -> None:
    workspace = _make(folder / "ws", _writer(person))
    found = _attempt(person, workspace=str(workspace), private=False)
    assert found == {"opened": f"{_writer(person)}\n"}
    assert (workspace / "written").stat().st_uid == _writer(person)


def test_a_rw_workspace_of_roots_is_refused_with_the_chown_to_run(root: Person, tmp_path: Path) -> None:
    workspace = _make(tmp_path / "ws", 0)
    refused = _attempt(root, workspace=str(workspace), private=False)["refused"]
    assert f"chown -R 65534:65534 {workspace}" in refused


def test_a_workspace_below_a_private_folder_of_roots_is_reached_all_the_same(root: Person, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    workspace = _make(tmp_path / "ws", 4321)
    assert _attempt(root, workspace=str(workspace), private=False) == {"opened": "4321\n"}


def test_a_private_folder_is_closed_to_others_and_given_to_a_new_user_whole(root: Person) -> None:
    assert (
        _attempt(root, name="crabpot-given", user=4321, workspace=f"{root.state}/sandboxes/given")["opened"] == "4321\n"
    )
    folder = Path(root.state, "sandboxes/given")
    (folder / "link").symlink_to("/etc/passwd")
    assert (
        _attempt(root, user=4322, workspace=str(folder), command="id -u; cat written; chmod 777 .")["opened"]
        == "4322\nwritten\n"
    )
    assert _attempt(root, user=4322, workspace=str(folder), command="true") == {"opened": ""}
    assert (folder / "written").stat().st_uid == 4322
    assert folder.stat().st_mode & 0o777 == 0o700
    assert Path("/etc/passwd").stat().st_uid == 0, "a link was followed"


def test_an_ordinary_user_cannot_become_another(user: Person) -> None:
    assert "needs a gateway that runs as root" in _attempt(user, user=1)["refused"]


def test_binds_are_mounted_as_configured(person: Person, folder: Path) -> None:
    data, reference = _make(folder / "data", _writer(person)), folder / "reference.txt"
    reference.write_text("reference\n")
    script = "cat /mnt/ref.txt; echo no > /mnt/ref.txt; echo yes > /mnt/data/file; echo no > /agent/file; ls -d /mnt"
    agent = _make(folder / "agent", _writer(person))
    user = {"user": 4321} if person.uid == 0 else {}
    found = _attempt(
        person,
        mounts=[[str(data), "/mnt/data", "rw"], [str(reference), "/mnt/ref.txt", "ro"]],
        agent_workspace=str(agent),
        command=script,
        **user,
    )["opened"]
    assert found.startswith("reference\n")
    assert found.count("Read-only file system") == 2
    assert (data / "file").read_text() == "yes\n"
    assert list(agent.iterdir()) == []


@pytest.mark.parametrize("kind", ["missing", "socket", "link"])
def test_what_is_missing_a_socket_or_was_swapped_for_a_link_is_not_mounted(
    person: Person, folder: Path, kind: str
) -> None:
    source = folder / "source"
    if kind == "link":
        source.symlink_to("/etc")
    server = socket.socket(socket.AF_UNIX)
    if kind == "socket":
        server.bind(str(source))
    with server:
        refused = _attempt(person, mounts=[[str(source), "/data", "ro"]])["refused"]
    expected = {"missing": "mkdir -p", "socket": "neither a folder nor a file", "link": "now leads to /etc"}
    assert expected[kind] in refused


def test_a_folder_above_a_source_that_became_a_link_is_noticed(person: Person, folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real/data").mkdir()
    (folder / "above").symlink_to(folder / "real")
    refused = _attempt(person, mounts=[[f"{folder}/above/data", "/data", "ro"]])["refused"]
    assert "replaced by a link" in refused


def test_a_workspace_swapped_while_the_sandbox_opens_is_never_the_wrong_one(user: Person) -> None:
    place = Path(user.home, "swap")
    place.mkdir()
    for name in ("ws", "secret"):
        (place / name).mkdir()
    for path in (place, place / "ws", place / "secret"):
        os.chown(path, user.uid, user.uid)
    found = user.run("swap", str(place))
    assert found["fd"] == "opened" or "swapped" in found["fd"] or "bind" in found["fd"]
    assert "was swapped while the sandbox opened" in found["path"]
    assert "was swapped while the sandbox opened" in found["find"]


def test_a_bind_inside_another_needs_a_bwrap_that_withstands_planted_links(user: Person) -> None:
    place = Path(user.home, "nested")
    (place / "data/ref").mkdir(parents=True)
    mounts = [[str(place / "data"), "/data", "rw"], [str(place), "/data/ref", "ro"]]
    safe = user.run("attack_programs", state=f"{user.state}-nested")["found"]
    found = _attempt(user, mounts=mounts, command="ls /data/ref")
    if any(safe[path] for path in safe if path.startswith("/")):
        assert found == {"opened": "data\n"}
    else:
        assert "CVE-2026-87766" in found["refused"]


def test_a_link_planted_where_a_bind_lands_is_refused_and_nothing_appears_outside(root: Person, tmp_path: Path) -> None:
    data, reference = _make(tmp_path / "data", 65534), _make(tmp_path / "reference", 65534)
    victim = _make(tmp_path / "victim", 65534)
    mounts = [[str(data), "/data", "rw"], [str(reference), "/data/ref", "ro"]]
    for target in (f"/oldroot{victim}", str(victim), "/crabpot/runner", "../workspace"):
        (data / "ref").symlink_to(target)
        found = _attempt(root, mounts=mounts)
        assert "refused" in found, target
        (data / "ref").unlink()
    assert list(victim.iterdir()) == []
    _make(data / "ref", 65534)
    (reference / "seen").touch()
    assert _attempt(root, mounts=mounts, command="ls /data/ref; touch /data/ref/no 2>&1")["opened"].startswith("seen\n")
    assert [path.name for path in reference.iterdir()] == ["seen"]


@pytest.mark.parametrize(
    "below", ["/tmp", "/var/tmp", "/srv" if os.access("/srv", os.W_OK) else os.path.expanduser("~")]
)
def test_a_folder_appears_at_its_own_path_also_below_the_private_tmp(person: Person, below: str) -> None:
    place = Path(tempfile.mkdtemp(prefix="crabpot same ", dir=below))
    try:
        place.chmod(0o755)
        workspace = _make(place / "deep", _writer(person))
        (place / "beside").write_text("not shown")
        command = (
            f"echo written > written; pwd; ls -A '{place}'; cd '{place}'/..; ls -A . | wc -l; : > /tmp/x; ls /tmp/x"
        )
        found = _attempt(
            person,
            workspace=str(workspace),
            private=False,
            workspace_at=str(workspace),
            command=command,
        )["opened"]
        assert found.splitlines()[:2] == [str(workspace), "deep"], found
        assert found.splitlines()[-1] == "/tmp/x", "the private /tmp is there, and can be written"
        assert (workspace / "written").read_text() == "written\n"
        assert sorted(entry.name for entry in place.iterdir()) == ["beside", "deep"]
    finally:
        shutil.rmtree(place)


def test_a_private_home_is_kept_for_the_next_sandbox_and_is_no_other_users(person: Person) -> None:
    home = f"{person.state}/homes/claude"
    first = _attempt(
        person, home=home, env={"HOME": "/home/agent", "PATH": "/usr/bin"}, command="id -un; echo kept > ~/x"
    )
    assert first["opened"] == "agent\n"
    again = "cat ~/x; stat -c %a ~; awk -F: '$1 == \"agent\" {print $6}' /etc/passwd; cat /workspace/x"
    second = _attempt(
        person, home=home, name="crabpot-other", env={"HOME": "/home/agent", "PATH": "/usr/bin"}, command=again
    )["opened"]
    assert second.splitlines()[:3] == ["kept", "700", "/home/agent"]
    assert "No such file" in second, "the home is not the workspace"
    real = Path(home if person.uid else f"{home}.65534")
    assert real.stat().st_mode & 0o777 == 0o700


def test_a_home_swapped_for_a_link_is_not_mounted(root: Person, tmp_path: Path) -> None:
    homes = Path(root.state, "homes")
    homes.mkdir(mode=0o711, exist_ok=True)
    (homes / "swapped.65534").symlink_to("/etc")
    refused = _attempt(root, home=f"{homes}/swapped")["refused"]
    assert "swapped" in refused
    assert Path("/etc/passwd").stat().st_uid == 0
