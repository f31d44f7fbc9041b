"""What is remembered of a probe, and when it is not believed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from crabpot.backends.bubblewrap import candidates, probe_cache, surroundings
from crabpot.backends.bubblewrap.render import Program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROGRAM = Program(mounting="fd", seals=True, safe_below_links=True)
KEY = ["6.1", "boot"]


def _replace_by_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.fixture
def chosen() -> candidates.Chosen:
    first = next(candidates.candidates(), None)
    if first is None:
        pytest.skip("no bwrap on this machine")
    return candidates.Chosen(candidate=first, program=PROGRAM)


@pytest.fixture
def file(tmp_path: Path, chosen: candidates.Chosen) -> Path:
    path = tmp_path / "probe.json"
    probe_cache.keep(str(path), KEY, chosen)
    return path


def test_what_was_found_is_found_again(file: Path, chosen: candidates.Chosen) -> None:
    assert probe_cache.recall(str(file), KEY) == chosen
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["probe.json"]


def test_it_is_not_believed_of_another_kernel_boot_or_program(file: Path) -> None:
    assert probe_cache.recall(str(file), ["6.1", "another boot"]) is None


def _document(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.chmod(0o644),
        lambda file: file.write_text("{"),
        lambda file: file.write_text("[" * 100_000),
        lambda file: file.write_text("[]"),
        lambda file: file.write_bytes(b"\xff"),
        lambda file: _document(file, path="/tmp/evil"),
        lambda file: _document(file, mounting="bind"),
        lambda file: _document(file, mounting=["fd"]),
        lambda file: _document(file, seals=1),
        lambda file: _document(file, safe_below_links="yes"),
        lambda file: (file.rename(file.with_name("real")), file.symlink_to(file.with_name("real"))),
        lambda file: (file.unlink(), file.mkdir()),
        _replace_by_fifo,
        lambda file: file.unlink(),
    ],
)
def test_a_file_that_is_not_to_the_letter_means_probing_again(file: Path, change: Callable[[Path], object]) -> None:
    change(file)
    assert probe_cache.recall(str(file), KEY) is None


def test_a_file_of_somebody_elses_is_not_believed(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs to be root")
    os.chown(file, 4321, 4321)
    assert probe_cache.recall(str(file), KEY) is None


def test_a_program_that_became_setuid_since_is_not_used(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_bytes(b"")
    program.chmod(0o4755)
    assert "is setuid" in (candidates.privileged(str(program)) or "")


def test_the_key_names_the_boot_the_user_apparmors_policy_and_every_program() -> None:
    key = probe_cache.key("/state/bundle-1")
    assert os.uname().release in key
    assert str(os.geteuid()) in key
    assert "/state/bundle-1" in key
    assert f"apparmor={surroundings.policy()}" in key
    for candidate in candidates.candidates():
        assert any(part.startswith(f"{candidate.path}:") for part in key)
