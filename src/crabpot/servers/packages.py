"""Servers that are packages: what `npx`, `uvx` and `pipx run` would install and start. Pure."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Iterator

Manager = Literal["npm", "pypi"]

# Names in the registry alone: an address or a folder would be fetched from wherever it says.
_NPM = re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*(?:@[A-Za-z0-9.^~<>=*|+_ -]{1,64})?", re.ASCII)
_PYPI = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._-]+\])?(?:[=<>!~]=?[A-Za-z0-9.,*+!=<>~-]{1,64})?", re.ASCII
)
_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
# Which options say nothing of importance, and which name a package.
_QUIET = frozenset({"-y", "--yes", "-q", "--quiet", "--isolated", "--no-cache", "--refresh"})
_NAMING = {
    "npx": {"-p", "--package"},
    "uvx": {"--from", "--with"},
    "pipx": {"--spec"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What a command installs, and what of it is started; no program: the one that the package is for."""

    manager: Manager
    specs: tuple[str, ...]
    program: str | None
    args: tuple[str, ...]


def of(command: tuple[str, ...]) -> Package | None:
    """Return the package that a command stands for, or None; CrabpotError if it cannot be sealed."""
    tool, words = os.path.basename(command[0]), list(command[1:])
    if tool == "uv" and words[:2] == ["tool", "run"]:
        tool, words = "uvx", words[2:]
    if tool == "pipx" and words[:1] == ["run"]:
        words = words[1:]
    elif tool not in ("npx", "uvx"):
        return None
    given, words = _options(tool, words)
    if not words:
        raise CrabpotError(f"{tool} starts no package here; write its name after the options")
    first, args = words[0], tuple(words[1:])
    specs = [value for _, value in given] or [first]
    named = any(option != "--with" for option, _ in given)
    if given and not named:
        specs = [first, *specs]
    manager: Manager = "npm" if tool == "npx" else "pypi"
    program = first if named else None
    if program is not None and not _PROGRAM.fullmatch(program):
        raise CrabpotError(f"{program!r} is not the name of a program in a package")
    return Package(manager=manager, specs=tuple(_spec(manager, one) for one in specs), program=program, args=args)


def _options(tool: str, words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Take the options of npx and the like from the words of a command."""
    found: list[tuple[str, str]] = []
    while words and words[0].startswith("-"):
        option, equals, value = words.pop(0).partition("=")
        if option == "--":
            break
        if option in _NAMING[tool]:
            if not equals:
                value = words.pop(0) if words else ""
            found.append((option, value))
        elif option not in _QUIET:
            known = ", ".join(_sorted(tool))
            raise CrabpotError(
                f"the option {option} of {tool} is not one that a sealed package has; these are: {known}"
            )
    return found, words


def _sorted(tool: str) -> Iterator[str]:
    yield from sorted({*_QUIET, *_NAMING[tool]})


def _spec(manager: Manager, text: str) -> str:
    if manager == "pypi" and "@" in text:
        name, _, version = text.partition("@")
        text = name if version == "latest" else f"{name}=={version}"
    pattern = _NPM if manager == "npm" else _PYPI
    if not pattern.fullmatch(text):
        raise CrabpotError(f"{text!r} is refused: only packages by their name in the registry are sealed")
    return text


def name_of(manager: Manager, spec: str) -> str:
    """Return the name in a spec, without a version."""
    if manager == "npm":
        return spec[0] + spec[1:].partition("@")[0]
    return re.split(r"[\[=<>!~]", spec, maxsplit=1)[0]
