"""The command that makes a file system from packages, and what is said when it fails."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from crabpot.images import bootstrap
from crabpot.images.bootstrap import BuildFailed, argv
from crabpot.images.recipe import Recipe
from crabpot.spec.spec import User

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Recipe(groups=(), extra=("tmux",), user=User(uid=1000, gid=1001))


def test_the_command_names_every_package_the_user_and_the_sources() -> None:
    made = argv(SMALL, "/cache/x.tar", ("/etc/apt/sources.list",), None)
    included = next(word for word in made if word.startswith("--include="))
    assert {"python3", "git", "tmux"} <= set(included.removeprefix("--include=").split(","))
    assert made[-3:] == ["bookworm", "/cache/x.tar", "/etc/apt/sources.list"]
    assert any("useradd" in word and "--uid 1000 --gid 1001" in word for word in made)
    assert not any("pip install" in word for word in made)


def test_what_debian_lacks_is_installed_from_the_wheels_that_were_fetched() -> None:
    made = argv(Recipe(groups=("dev",), extra=(), user=SMALL.user), "/x.tar", (), "/tmp/a b/wheels")
    hooks = [word.removeprefix("--customize-hook=") for word in made if word.startswith("--customize-hook=")]
    assert "sync-in '/tmp/a b/wheels' /var/tmp/wheels" in hooks
    (install,) = [hook for hook in hooks if "pip install" in hook]
    words = shlex.split(install)
    assert words[:4] == ["chroot", "$1", "sh", "-c"]
    assert "--no-index" in words[4]


def test_a_program_that_fails_is_told_by_its_last_words() -> None:
    heard: list[str] = []
    script = "print('\\n'.join(f'line {n}' for n in range(100))); raise SystemExit(3)"
    with pytest.raises(BuildFailed, match="ended with 3") as caught:
        asyncio.run(bootstrap._run([sys.executable, "-c", script], heard.append))
    assert heard == [f"line {number}" for number in range(100)]
    assert "line 99" in str(caught.value)
    assert "line 10\n" not in str(caught.value)


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(BuildFailed, match="cannot be run"):
        asyncio.run(bootstrap._run(["/nonexistent/mmdebstrap"], print))


def test_a_pip_that_an_agent_planted_in_the_current_folder_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "pip"
    planted.mkdir()
    (planted / "__init__.py").write_text("")
    (planted / "__main__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    # It is looked for first, and would be started after pip.
    maker = tmp_path / "bin/mmdebstrap"
    maker.parent.mkdir()
    maker.write_text("#!/bin/false\n")
    maker.chmod(0o755)
    monkeypatch.setenv("PATH", str(maker.parent))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(BuildFailed, match="No matching distribution"):
        asyncio.run(bootstrap.make(Recipe(groups=("dev",), extra=(), user=SMALL.user), "x.tar", lambda _: None))
    assert not (tmp_path / "ran").exists()
