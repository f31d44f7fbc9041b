"""Find an agent program, and the little of the host that must be shown for it to start.

Its own package folder and its interpreter's prefix, read-only: never a first-level folder of the home, where other
programs keep their keys.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What every sandbox has already.
_SHOWN = ("/usr/", "/bin/", "/lib/", "/lib64/", "/sbin/")
_SHEBANG = re.compile(rb"#!\s*(\S+)(?:[ \t]+(\S+))?")
_LONGEST_LINE = 512
_MOST_PACKAGES = 48
_LARGEST_MANIFEST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program: what starts it, what is shown for it, and the folders of its interpreters for PATH."""

    argv: tuple[str, ...]
    shows: tuple[str, ...]
    path: tuple[str, ...]


def find(name: str, path: str, home: str, install: str = "") -> Program:
    """Return an installed program; CrabpotError says how to install it."""
    found = shutil.which(name, path=path)
    if found is None:
        if "/" in name:
            raise CrabpotError(f"{name} cannot be run: " + _wrong_with(name))
        how = f": {install}" if install else "; give its path, or install it"
        raise CrabpotError(f"{name} is not installed (it is not on your PATH){how}")
    found = _behind_shim(found, path)
    # The link itself is what makes an interpreter that of its virtual environment.
    own = os.path.islink(found) and _virtual_environment(found) is not None
    entry = os.path.abspath(found) if own else os.path.realpath(found)
    shows, folders = dict.fromkeys(_of(entry, home)), [os.path.dirname(entry)]
    interpreter = entry if own else _interpreter(entry, path)
    if interpreter is not None:
        real = os.path.realpath(interpreter)
        shows.update(dict.fromkeys(_around(interpreter, home)))
        folders += [os.path.dirname(interpreter), os.path.dirname(real)]
    kept = [one for one in shows if not f"{one}/".startswith(_SHOWN)]
    outer = [one for one in kept if not any(one.startswith(f"{other}/") for other in kept)]
    return Program(argv=(entry,), shows=tuple(outer), path=tuple(dict.fromkeys(folders)))


def _wrong_with(name: str) -> str:
    if not os.path.exists(name):
        return "there is no such file"
    return (
        "it is a folder" if os.path.isdir(name) else f"it is not executable; `chmod +x {shlex.quote(name)}` makes it so"
    )


def _behind_shim(found: str, path: str) -> str:
    """Return the program that a shim of pyenv stands for, which starts without pyenv.

    The user's own version decides, never the `.python-version` of a folder: an agent may have written that.
    """
    folder, name = os.path.split(found)
    root = os.path.dirname(folder)
    if os.path.basename(folder) != "shims" or not os.path.isdir(f"{root}/versions"):
        return found
    versions = []
    with suppress(OSError), open(f"{root}/version", encoding="utf-8") as file:
        versions = file.read().split()
    others = [one for one in path.split(":") if os.path.normpath(one) != folder]
    behind = shutil.which(name, path=":".join([*(f"{root}/versions/{one}/bin" for one in versions), *others]))
    if behind is None:
        how = f"give its own path, as `pyenv which {name}` prints it"
        raise CrabpotError(f"{name} is a shim of pyenv, and the version that {root}/version names has none: {how}")
    return behind


def _of(entry: str, home: str) -> Iterator[str]:
    """Yield a program's own folder, or the one file that it is."""
    package = _package(entry)
    if package is not None:
        yield package
        yield from _dependencies(package, home)
        return
    environment = _virtual_environment(entry)
    if environment is not None:
        yield environment
        return
    yield entry


def _package(entry: str) -> str | None:
    """Return the folder of the npm package that a file belongs to."""
    at = os.path.dirname(entry)
    while at != "/":
        above = os.path.dirname(at)
        scoped = os.path.basename(above).startswith("@")
        holder = os.path.dirname(above) if scoped else above
        if os.path.basename(holder) == "node_modules":
            return at
        at = above
    return None


def _dependencies(package: str, home: str) -> Iterator[str]:
    """Yield the packages beside it that it needs; where they are many, the folder that they are all in."""
    found: dict[str, None] = {}
    todo = [package]
    while todo:
        at = todo.pop()
        for name in _needs(at):
            where = _resolve(name, at)
            if where is not None and where not in found and where != package:
                found[where] = None
                todo.append(where)
    beside = [one for one in found if not one.startswith(f"{package}/")]
    holders = {one[: one.rindex("/node_modules/") + len("/node_modules")] for one in beside}
    if len(beside) > _MOST_PACKAGES and not any(os.path.dirname(one) == home for one in holders):
        yield from holders
    else:
        yield from beside


def _needs(package: str) -> list[str]:
    try:
        with open(f"{package}/package.json", "rb") as file:
            said = json.loads(file.read(_LARGEST_MANIFEST))
    except (OSError, ValueError):
        return []
    lists = [said.get(key) for key in ("dependencies", "optionalDependencies")] if isinstance(said, dict) else []
    return [name for one in lists if isinstance(one, dict) for name in one if isinstance(name, str)]


def _resolve(name: str, package: str) -> str | None:
    """Return where Node would find a package from another one."""
    if name.startswith(("/", ".")) or ".." in name.split("/"):
        return None
    at = package
    while at != "/":
        if os.path.basename(at) != "node_modules" and os.path.isfile(f"{at}/node_modules/{name}/package.json"):
            return os.path.realpath(f"{at}/node_modules/{name}")
        at = os.path.dirname(at)
    return None


def _virtual_environment(entry: str) -> str | None:
    """Return the virtual environment of Python that a file is in, as pipx and uv make them."""
    above = os.path.dirname(os.path.dirname(entry))
    return above if os.path.isfile(f"{above}/pyvenv.cfg") else None


def _interpreter(entry: str, path: str) -> str | None:
    """Return the program that a script is run by, as the script names it."""
    try:
        with open(entry, "rb") as file:
            line = file.read(_LONGEST_LINE).partition(b"\n")[0]
    except OSError:
        return None
    found = _SHEBANG.match(line)
    if found is None:
        return None
    program = os.fsdecode(found[1])
    if os.path.basename(program) == "env" and found[2] is not None:
        named = shutil.which(os.fsdecode(found[2]), path=path)
        return None if named is None else _behind_shim(named, path)
    return program


def _around(interpreter: str, home: str) -> Iterator[str]:
    """Yield an interpreter's prefix, and where a virtual environment has it from."""
    for program in dict.fromkeys((interpreter, os.path.realpath(interpreter))):
        folder = os.path.dirname(program)
        prefix = os.path.dirname(folder) if os.path.basename(folder) == "bin" else program
        if os.path.dirname(prefix) in (home, os.path.realpath(home)) and os.path.isdir(prefix):
            # A first-level folder of the home, such as ~/miniconda3: only what programs are made of.
            yield from (f"{prefix}/{name}" for name in ("bin", "lib", "share") if os.path.isdir(f"{prefix}/{name}"))
        elif prefix not in ("/", home, os.path.realpath(home)):
            yield prefix
        else:
            yield program
