"""What is shown of the host for a program: its own package and its interpreter, and no folder beside them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from crabpot.errors import CrabpotError
from crabpot.presets import programs

if TYPE_CHECKING:
    from pathlib import Path


def _script(path: Path, shebang: str = "#!/bin/sh") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{shebang}\n")
    path.chmod(0o755)
    return path


def _package(folder: Path, **manifest: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps(manifest))
    return folder


def _linked(home: Path, target: Path, name: str) -> str:
    (home / ".local/bin").mkdir(parents=True, exist_ok=True)
    (home / f".local/bin/{name}").symlink_to(target)
    return str(home / ".local/bin")


def test_a_program_that_is_not_installed_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(CrabpotError, match="npm install -g it"):
        programs.find("claude", str(tmp_path), str(tmp_path), "npm install -g it")


def test_of_a_global_npm_package_only_its_folder_and_nodes_prefix_are_shown(tmp_path: Path) -> None:
    prefix = tmp_path / ".nvm/versions/node/v24"
    node = _script(prefix / "bin/node", "#!/bin/true")
    package = _package(tmp_path / ".npm-global/lib/node_modules/@x/agent", dependencies={"inner": "1"})
    _package(package / "node_modules/inner")
    entry = _script(package / "cli.js", "#!/usr/bin/env node")
    path = f"{_linked(tmp_path, entry, 'agent')}:{node.parent}"
    found = programs.find("agent", path, str(tmp_path))
    assert found.argv == (str(entry),)
    assert set(found.shows) == {str(package), str(prefix)}
    assert str(node.parent) in found.path


def test_packages_beside_it_that_it_needs_are_shown_one_by_one(tmp_path: Path) -> None:
    modules = tmp_path / "tools/node_modules"
    package = _package(modules / "agent", optionalDependencies={"@x/native": "1"}, dependencies={"../evil": "1"})
    native = _package(modules / "@x/native", dependencies={"deep": "1"})
    deep = _package(modules / "deep")
    _package(modules / "unrelated")
    entry = _script(package / "bin.js")
    found = programs.find("agent", _linked(tmp_path, entry, "agent"), str(tmp_path))
    assert set(found.shows) == {str(package), str(native), str(deep)}


def test_a_single_binary_is_shown_alone(tmp_path: Path) -> None:
    entry = _script(tmp_path / ".local/share/claude/versions/2.1", "\x7fELF")
    found = programs.find("claude", _linked(tmp_path, entry, "claude"), str(tmp_path))
    assert found.shows == (str(entry),)


def test_of_a_virtual_environment_it_and_its_pythons_prefix_are_shown(tmp_path: Path) -> None:
    python = _script(tmp_path / ".pyenv/versions/3.12/bin/python3.12", "\x7fELF")
    environment = tmp_path / ".local/share/pipx/venvs/aider"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("home = x\n")
    (environment / "bin/python").symlink_to(python)
    entry = _script(environment / "bin/aider", f"#!{environment}/bin/python")
    found = programs.find("aider", _linked(tmp_path, entry, "aider"), str(tmp_path))
    assert set(found.shows) == {str(environment), str(tmp_path / ".pyenv/versions/3.12")}


def test_of_an_interpreter_at_the_first_level_of_the_home_only_programs_are_shown(tmp_path: Path) -> None:
    conda = tmp_path / "miniconda3"
    python = _script(conda / "bin/python3", "\x7fELF")
    (conda / "lib").mkdir()
    (conda / "secrets").mkdir()
    entry = _script(tmp_path / "tool/run.py", f"#!{python}")
    found = programs.find(str(entry), "", str(tmp_path))
    assert set(found.shows) == {str(entry), str(conda / "bin"), str(conda / "lib")}


def test_what_every_sandbox_has_is_not_shown_again() -> None:
    assert programs.find("bash", "/usr/bin:/bin", "/root").shows == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [("missing", "no such file"), ("folder", "is a folder"), ("plain.sh", "not executable; `chmod \\+x .*plain.sh`")],
)
def test_a_path_that_cannot_be_run_says_why(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    with pytest.raises(CrabpotError, match=said):
        programs.find(str(tmp_path / name), "/usr/bin", str(tmp_path))


def test_behind_a_shim_of_pyenv_is_the_program_of_the_users_own_version(tmp_path: Path) -> None:
    root = tmp_path / ".pyenv"
    shims = _script(root / "shims/agent", "#!/usr/bin/env bash").parent
    _script(root / "shims/python3", "#!/usr/bin/env bash")
    for version in ("3.11.7", "3.12.1"):
        _script(root / f"versions/{version}/bin/python3", "#!/bin/true")
    entry = _script(root / "versions/3.12.1/bin/agent", "#!/usr/bin/env python3")
    with pytest.raises(CrabpotError, match="pyenv which agent"):
        programs.find("agent", str(shims), str(tmp_path))
    (root / "version").write_text("3.12.1\n")
    found = programs.find("agent", str(shims), str(tmp_path))
    assert found.argv == (str(entry),)
    assert set(found.shows) == {str(root / "versions/3.12.1")}
    assert str(shims) not in found.path


def test_where_pyenv_chose_the_systems_python_its_shim_stands_for_that_one(tmp_path: Path) -> None:
    shims = _script(tmp_path / ".pyenv/shims/sh", "#!/usr/bin/env bash").parent
    (tmp_path / ".pyenv/versions").mkdir()
    (tmp_path / ".pyenv/version").write_text("system\n")
    assert programs.find("sh", f"{shims}:/usr/bin", str(tmp_path)).shows == ()
