"""Git's own words: what stands before its command, and what among them names programs."""

from __future__ import annotations

import os
from dataclasses import dataclass

# Options before the command that take the next word as their value.
_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"})
_LEADS = ("-C", "--git-dir", "--work-tree", "--bare", "--namespace")
_SETS = ("-c", "--config-env", "--exec-path")

# Options of commands that name a program to run, as far as they are known.
_RUNS = ("--receive-pack", "--upload-pack", "--exec", "--config", "--extcmd", "--ext-diff", "--open-files-in-pager")
_RUNS_SHORT = {"rebase": ("-x",), "clone": ("-u", "-c"), "difftool": ("-x",), "grep": ("-O",)}
_RUNS_WORD = {"bisect": "run", "submodule": "foreach"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GitWords:
    """A git command line: the options that lead it to a repository, its command, and what names programs."""

    leading: tuple[str, ...]
    """Those before the command that say which repository is meant, as they are to be repeated."""
    pointer: str
    """What they come to: a path, from the working folder on, that is or holds the `.git` that they name."""
    command: str | None
    dangers: tuple[str, ...]


def read(argv: tuple[str, ...]) -> GitWords:
    """Read the words after `git` itself."""
    leading: list[str] = []
    pointer = ""
    dangers: list[str] = []
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        word, size = argv[at], 2 if argv[at] in _WITH_VALUE else 1
        name = word.partition("=")[0]
        if name in _LEADS:
            leading += argv[at : at + size]
        if name in ("-C", "--git-dir"):
            pointer = os.path.join(pointer, word.partition("=")[2] if "=" in word else "".join(argv[at + 1 : at + 2]))
        if name in _SETS:
            dangers.append(f"git {name} sets configuration or programs of its own, which nothing here overrides")
        at += size
    command = argv[at] if at < len(argv) else None
    rest = argv[at + 1 :]
    short = _RUNS_SHORT.get(command or "", ())
    runs = [
        word
        for word in rest
        if word.partition("=")[0] in _RUNS or word[:2] in short or word == _RUNS_WORD.get(command or "")
    ]
    dangers += [f"git {command} {word} names a program to run" for word in runs]
    return GitWords(leading=tuple(leading), pointer=pointer, command=command, dangers=tuple(dangers))
