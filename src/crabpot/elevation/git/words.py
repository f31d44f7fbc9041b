"""Git's own words: what stands before its command, and what among them names programs."""

from __future__ import annotations

import os
from dataclasses import dataclass

# Options before the command that take the next word as their value.
_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"})
_LEADS = ("-C", "--git-dir", "--work-tree", "--bare", "--namespace")
_SETS = ("-c", "--config-env", "--exec-path")

# Options of commands that name a program to run, or a file to write, as far as they are known. Git takes any beginning
# of one for the whole.
_RUNS = (
    *("--receive-pack", "--upload-pack", "--exec", "--config", "--extcmd", "--ext-diff", "--open-files-in-pager"),
    # A strategy that git does not know is a program, which may lie in the folder: git-merge-x/y.
    "--strategy",
    *("--template", "--to-cmd", "--cc-cmd", "--header-cmd", "--sendmail-cmd", "--smtp-server", "--tree-filter"),
    *("--index-filter", "--msg-filter", "--env-filter", "--commit-filter", "--parent-filter", "--tag-name-filter"),
)
_WRITES = ("--output", "--output-directory", "--separate-git-dir", "--global", "--system")
_RUNS_LETTERS = {
    "rebase": "xs",
    "clone": "uc",
    "difftool": "x",
    "grep": "O",
    "ls-remote": "u",
    "pull": "s",
    "merge": "s",
}
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
    dangers += [f"git {command} {word} names a program to run" for word in rest if _runs(command or "", word)]
    dangers += [
        f"git {command} {word} names a file or folder to write" for word in rest if _is_short_for(word, _WRITES)
    ]
    return GitWords(leading=tuple(leading), pointer=pointer, command=command, dangers=tuple(dangers))


def _runs(command: str, word: str) -> bool:
    letters = _RUNS_LETTERS.get(command, "")
    # Behind other letters too: which of them takes the rest as its value is not known here.
    bundled = word.startswith("-") and not word.startswith("--") and any(letter in word for letter in letters)
    return bundled or word == _RUNS_WORD.get(command) or _is_short_for(word, _RUNS)


def _is_short_for(word: str, options: tuple[str, ...]) -> bool:
    name = word.partition("=")[0]
    return word.startswith("--") and word != "--" and any(option.startswith(name) for option in options)
