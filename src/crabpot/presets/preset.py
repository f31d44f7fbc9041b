"""Presets: one JSON5 file for each agent program, in the package and beside the configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping  # noqa: TC003  the reader of text resolves the annotations at run time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from crabpot.config.document import SyntaxProblem, line_of
from crabpot.config.reading import parse
from crabpot.config.schema import read
from crabpot.errors import ConfigError, Problem
from crabpot.spec.naming import is_variable_name
from crabpot.spec.network import canonical_place, problem_with_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.config.document import Value

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_LARGEST = 256 * 1024
_OWN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A key that an agent would read from `env`: inside it finds a dummy, and the gateway adds the real one.

    `sets` and `args` are given to the agent along with the dummy, such as the base URL that `upgrade` needs.
    """

    env: str
    host: str
    header: str
    format: str = "{}"
    tls: Literal["upgrade", "terminate"] = "upgrade"
    sets: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()

    @property
    def dummy(self) -> str:
        """Return what stands in its place inside."""
        return f"crabpot-keeps-{self.env.lower().replace('_', '-')}-outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """What a private home begins with: texts, by path below it. What is there already is left alone."""

    seed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What `run` knows about one agent program."""

    program: str
    hosts: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    home: Home = Home()
    install: str = ""
    notes: str = ""


def names(beside: str | None) -> list[str]:
    """Return the names of all presets; `beside` is the folder of the user's own."""
    found: set[str] = set()
    for folder in filter(None, (beside, _OWN)):
        if os.path.isdir(folder):
            found.update(name.removesuffix(".json5") for name in os.listdir(folder) if name.endswith(".json5"))
    return sorted(name for name in found if _NAME.fullmatch(name))


def find(name: str, beside: str | None) -> Preset | None:
    """Return a preset by name, the user's own before ours; None if there is none, ConfigError if it does not load."""
    if not _NAME.fullmatch(name):
        return None
    for folder in filter(None, (beside, _OWN)):
        path = os.path.join(folder, f"{name}.json5")
        if os.path.isfile(path):
            return _load(path)
    return None


def _load(path: str) -> Preset:
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(Problem(file=path, line=None, path="", message=f"cannot be read: {error}")) from None
    problems: dict[Problem, None] = {}

    def complain(value: Value | None, where: str, message: str) -> None:
        line = None if value is None else line_of(text, value.start)
        problems[Problem(file=path, line=line, path=where, message=message)] = None

    try:
        made = read(Preset, parse(text), complain)
    except SyntaxProblem as problem:
        line = line_of(text, problem.offset)
        raise ConfigError(Problem(file=path, line=line, path=problem.path, message=str(problem))) from None
    if made is not None and not problems:
        for where, message in _problems(made):
            complain(None, where, message)
    if problems or made is None:
        raise ConfigError(*problems)
    return made


def _problems(preset: Preset) -> Iterator[tuple[str, str]]:
    for index, place in enumerate(preset.hosts):
        if wrong := _problem_with_place(place):
            yield f"hosts[{index}]", wrong
    for name in preset.env:
        if not is_variable_name(name):
            yield f"env.{name}", f"{name!r} cannot be the name of a variable"
    for index, secret in enumerate(preset.secrets):
        if wrong := _problem_with_place(secret.host) or problem_with_header(secret.header):
            yield f"secrets[{index}]", wrong
        if any(not is_variable_name(name) for name in (secret.env, *secret.sets)):
            yield f"secrets[{index}]", "env and sets name variables"
    for path in preset.home.seed:
        if path.startswith("/") or ".." in path.split("/"):
            yield f"home.seed.{path}", "must be a path below the private home"


def _problem_with_place(text: str) -> str | None:
    try:
        canonical_place(text)
    except ValueError as error:
        return str(error)
    return None
