"""Parse git commands that need a network or credentials; options that are not listed are refused by name."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from crabpot.errors import HostRefused
from crabpot.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = Literal["push", "fetch", "pull", "clone", "ls-remote"]

# The options of each command. None means the option takes no value; a text names its value.
_QUIET: Mapping[str, str] = dict.fromkeys(("-q", "--quiet", "-v", "--verbose", "--progress", "--no-progress"), "")
_FLAGS: Mapping[Kind, Mapping[str, str]] = {
    "push": {
        "-u": "upstream",
        "--set-upstream": "upstream",
        "-f": "force",
        "--force": "force",
        "--force-with-lease": "lease",
        "--tags": "tags",
        "-d": "delete",
        "--delete": "delete",
        "-n": "dry_run",
        "--dry-run": "dry_run",
        "--atomic": "atomic",
    },
    "fetch": {
        "--all": "every",
        "-p": "prune",
        "--prune": "prune",
        "-t": "tags",
        "--tags": "tags",
        "--rebase": "rebase",
        "--ff-only": "ff_only",
    },
    "pull": {
        "--all": "every",
        "-p": "prune",
        "--prune": "prune",
        "-t": "tags",
        "--tags": "tags",
        "-r": "rebase",
        "--rebase": "rebase",
        "--ff-only": "ff_only",
    },
    "clone": {"--single-branch": "single_branch"},
    "ls-remote": {"-h": "heads", "--heads": "heads", "-t": "tags", "--tags": "tags", "--refs": "refs_only"},
}
_VALUES: Mapping[Kind, Mapping[str, str]] = {
    "push": {},
    "fetch": {"--depth": "depth"},
    "pull": {"--depth": "depth"},
    "clone": {"--depth": "depth", "-b": "branch", "--branch": "branch"},
    "ls-remote": {},
}
_ONLY_OF_PULL = frozenset({"--rebase", "--ff-only"})
_DEEPEST = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One git command that contacts a remote: what it does, to which remote, with which refs, as written."""

    kind: Kind
    folder: str = ""
    """The folder of `-C`, relative to the working folder."""
    remote: str | None = None
    """A configured name, a URL or a path."""
    names: tuple[str, ...] = ()
    """Refspecs; patterns for ls-remote; the folder to make for clone."""
    upstream: bool = False
    force: bool = False
    lease: bool = False
    tags: bool = False
    delete: bool = False
    dry_run: bool = False
    atomic: bool = False
    every: bool = False
    prune: bool = False
    rebase: bool | None = None
    ff_only: bool = False
    single_branch: bool = False
    heads: bool = False
    refs_only: bool = False
    depth: str | None = None
    branch: str | None = None


def read(argv: Sequence[str]) -> Operation | None:
    """Parse `git …`; return None if its command needs neither network nor credentials."""
    words, folder = list(argv[1:]), ""
    refused: str | None = None
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "-C" and words:
            folder = os.path.join(folder, words.pop(0))
        elif refused is None:
            refused = option
            # Options with a separate value: what follows is not the command.
            if option in ("-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env") and words:
                words.pop(0)
    if not words or words[0] not in _FLAGS:
        return None
    kind = cast("Kind", words[0])
    if refused is not None:
        raise _refusal(kind, refused, "is before the command, where only -C is supported")
    return _checked(_read(Operation(kind=kind, folder=folder), words[1:]))


def _read(found: Operation, words: list[str]) -> Operation:
    plain: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            plain += words
            break
        if not word.startswith("-") or word == "-":
            plain.append(word)
        elif word.startswith("--"):
            found = _long(found, word, words)
        else:
            found = _short(found, word, words)
    return replace(found, remote=plain[0] if plain else None, names=tuple(plain[1:]))


def _long(found: Operation, word: str, rest: list[str]) -> Operation:
    name, equals, value = word.partition("=")
    if name == "--rebase" and equals and found.kind == "pull" and value in ("true", "false"):
        return replace(found, rebase=value == "true")
    if name in _VALUES[found.kind]:
        return _with_value(found, name, value if equals else _next(found, name, rest))
    if equals:
        raise _refusal(found.kind, word if name in _FLAGS[found.kind] else name, "is not carried out for a sandbox")
    return _flag(found, name)


def _short(found: Operation, word: str, rest: list[str]) -> Operation:
    for at, letter in enumerate(word[1:], 1):
        name = f"-{letter}"
        if name in _VALUES[found.kind]:
            return _with_value(found, name, word[at + 1 :] or _next(found, name, rest))
        found = _flag(found, name)
    return found


def _flag(found: Operation, name: str) -> Operation:
    if name in _QUIET:
        return found
    meaning = _FLAGS[found.kind].get(name)
    if meaning is None or (found.kind != "pull" and name in _ONLY_OF_PULL):
        raise _refusal(found.kind, name, "is not carried out for a sandbox")
    given: dict[str, Any] = {meaning: True}
    return replace(found, **given)


def _with_value(found: Operation, name: str, value: str) -> Operation:
    meaning = _VALUES[found.kind][name]
    if meaning == "depth" and not (value.isascii() and value.isdigit() and 0 < int(value[:20]) < _DEEPEST):
        raise HostRefused("invalid_arguments", f"git {found.kind} {name} takes a number of commits, not {value!r}")
    given: dict[str, Any] = {meaning: value}
    return replace(found, **given)


def _next(found: Operation, name: str, rest: list[str]) -> str:
    if not rest:
        raise HostRefused("invalid_arguments", f"git {found.kind} {name} needs a value")
    return rest.pop(0)


def _checked(found: Operation) -> Operation:
    if found.kind == "clone" and (found.remote is None or len(found.names) > 1):
        raise HostRefused("invalid_arguments", "git clone takes a URL and at most one folder")
    if found.kind == "push" and found.delete and (not found.names or found.force or found.tags):
        raise HostRefused("invalid_arguments", "git push --delete takes a remote and the names to delete, and no more")
    if found.every and (found.remote is not None or found.depth is not None):
        raise HostRefused("invalid_arguments", f"git {found.kind} --all takes no remote and no --depth")
    if found.rebase and found.ff_only:
        raise HostRefused("invalid_arguments", "git pull takes --rebase or --ff-only, not both")
    return found


def _refusal(kind: Kind, option: str, why: str) -> HostRefused:
    taken = sorted(name for name in (*_FLAGS[kind], *_VALUES[kind]) if kind == "pull" or name not in _ONLY_OF_PULL)
    return HostRefused("denied", f"git {kind}: {option} {why}; it takes {' '.join(taken)}, and -C before the command")
