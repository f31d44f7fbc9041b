"""Which git commands a client of the socket may run, with which arguments: none that starts a program or leads out.

gitconfig.py deals with what the repository's own configuration would start.
"""

from __future__ import annotations

import re

from ..core.failure import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .roots import Roots

# Everything else (aliases, submodule, filter-branch, difftool, daemon, hook, maintenance, send-email, help with its
# viewers …) runs programs, or has no place in an agent's folder.
COMMANDS = frozenset(
    "add am annotate apply blame branch cat-file check-attr check-ignore checkout cherry cherry-pick clean clone "
    "commit commit-tree config count-objects describe diff diff-files diff-index diff-tree fetch for-each-ref "
    "format-patch fsck gc grep hash-object init log ls-files ls-remote ls-tree merge merge-base mv name-rev notes "
    "pack-refs prune pull push range-diff read-tree rebase reflog remote reset restore rev-list rev-parse revert rm "
    "shortlog show show-branch show-ref sparse-checkout stash status switch symbolic-ref tag update-index "
    "update-ref version whatchanged worktree write-tree".split()
)
# Those that contact another repository.
REMOTE = frozenset(("clone", "fetch", "ls-remote", "pull", "push", "remote"))

_PLAIN_GLOBALS = frozenset(
    "--bare --no-pager -P --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --literal-pathspecs "
    "--glob-pathspecs --noglob-pathspecs --icase-pathspecs --version -v".split()
)

# git accepts any prefix of a long option, so one that could be short for these is refused too.
_RUNS = "it runs a program"
_REFUSED: dict[str, str] = {
    "exec": _RUNS,
    "upload-pack": _RUNS,
    "receive-pack": _RUNS,
    "ext-diff": _RUNS,
    "textconv": _RUNS,
    "open-files-in-pager": _RUNS,
    "help": "it starts a viewer; -h prints the usage",
    "config": "it sets what git runs",
    "recurse-submodules": "other repositories bring their own configuration",
    "ignore-submodules": "other repositories are not consulted",
    "submodule": "other repositories are not consulted",
    "stdin-paths": "it reads paths that were not checked",
    "unsafe-paths": "it leads outside",
    "global": "this runner has no configuration but the repository's",
    "system": "this runner has no configuration but the repository's",
    "interactive": "there is nobody to answer",
    "edit-todo": "there is nobody to edit it",
    "remote-submodules": "other repositories bring their own configuration",
}
# In full these are other options, though they begin like refused ones.
_HONEST = frozenset(("remote", "text", "edit", "stdin"))
# A template brings a configuration that nobody has checked when it takes effect.
_REFUSED_FOR: dict[str, tuple[str, ...]] = {"clone": ("template",), "init": ("template",)}
_LONGEST_ATTACHED = 128
_REFUSED_LETTERS: dict[str, dict[str, str]] = {
    "clone": {"u": _RUNS, "c": "it sets what git runs"},
    "ls-remote": {"u": _RUNS},
    "grep": {"O": _RUNS},
    "rebase": {"x": _RUNS, "i": "there is nobody to answer"},
    "commit": {"p": "there is nobody to answer", "S": "it runs gpg"},
    "add": {"i": "there is nobody to answer", "p": "there is nobody to answer", "e": "there is nobody to answer"},
}
# The value of these is text: it may contain dots and slashes. (letters that take it, letters that may precede)
_TEXT_LETTERS: dict[str, tuple[str, str]] = {
    "commit": ("m", "asvqnioz"),
    "commit-tree": ("m", ""),
    "merge": ("m", "nqv"),
    "notes": ("m", "f"),
    "stash": ("m", "akuqS"),
    "tag": ("m", "asf"),
    "log": ("SGLn", ""),
    "show": ("SGL", ""),
    "diff": ("SG", ""),
    "grep": ("e", "inwvElFhH"),
    "blame": ("L", ""),
}
_TEXT_OPTIONS = frozenset(
    "message author date grep committer format pretty since until after before trailer cleanup subject-prefix "
    "in-reply-to grep-reflog glob exclude decorate-refs decorate-refs-exclude abbrev sort contains no-contains merged "
    "no-merged points-at initial-branch branch origin depth strategy-option pathspec-file-nul "
    "word-diff-regex src-prefix dst-prefix line-prefix prefix namespace signature max-count skip".split()
)
# Another strategy is a program by its name, which may lie in the folder: git-merge-x/y.
STRATEGIES = frozenset((b"ort", b"recursive", b"resolve", b"octopus", b"ours", b"subtree"))
_STRATEGY_COMMANDS = frozenset(("merge", "pull", "rebase"))
# Remote helpers by name (`ext::sh -c …`), and addresses with a scheme.
_HELPER = re.compile(rb"[A-Za-z0-9+.-]+::")
_SAYS_PATTERN = re.compile(rb"-[A-Za-z0-9]*[ef]")
_FILE_URL = re.compile(rb"file://[^/]*", re.IGNORECASE)


class GitCall:
    """A checked command line, in the pieces between which options are inserted."""

    __slots__ = ("args", "command", "folder", "globals")

    def __init__(self, command: str, options: list[bytes], args: list[bytes], folder: bytes) -> None:
        self.command = command
        self.globals = options
        self.args = args
        self.folder = folder


def check(args: list[bytes], folder: bytes, roots: Roots) -> GitCall:
    """Return the checked command line; ToolError for what is refused."""
    options, rest, folder = _take_globals(args, folder, roots)
    if not rest:
        return GitCall("version", options, [], folder)
    command = rest[0].decode("utf-8", "replace")
    if command not in COMMANDS:
        raise ToolError("permission_denied", "git %s is not among the git commands of this runner" % command)
    _check_args(command, rest[1:], folder, roots)
    return GitCall(command, options, rest[1:], folder)


def _take_globals(args: list[bytes], folder: bytes, roots: Roots) -> tuple[list[bytes], list[bytes], bytes]:
    """Return the options before the command, what follows them, and the folder that they change to."""
    rest = list(args)
    taken: list[bytes] = []
    while rest and rest[0].startswith(b"-"):
        option = rest.pop(0)
        taken.append(option)
        name, equals, value = option.decode("utf-8", "surrogateescape").partition("=")
        if name in _PLAIN_GLOBALS and not equals:
            continue
        if name not in ("-C", "--git-dir", "--work-tree", "--namespace") or (name == "-C" and equals):
            raise _refused(name, "this runner does not allow it before the command")
        if not equals:
            if not rest:
                raise ToolError("invalid_arguments", "git: %s needs a value" % name)
            taken.append(rest.pop(0))
            value = taken[-1].decode("utf-8", "surrogateescape")
        if name != "--namespace":
            resolved = roots.resolve(value.encode("utf-8", "surrogateescape"), folder)
            folder = resolved if name == "-C" else folder
    return taken, rest, folder


def _check_args(command: str, args: list[bytes], folder: bytes, roots: Roots) -> None:
    rest = list(args)
    options = True
    # grep's pattern is its first operand, unless an option with these letters gives it.
    pattern_follows = command == "grep" and not any(_SAYS_PATTERN.match(arg) for arg in args)
    while rest:
        arg = rest.pop(0)
        if options and arg == b"--":
            options = False
        elif options and arg.startswith(b"--"):
            _long(command, arg, rest, folder, roots)
        elif options and arg.startswith(b"-") and arg != b"-":
            _short(command, arg, rest, folder, roots)
        elif pattern_follows:
            pattern_follows = False
        else:
            _operand(command, arg, folder, roots)


def _long(command: str, arg: bytes, rest: list[bytes], folder: bytes, roots: Roots) -> None:
    raw, equals, value = arg[2:].partition(b"=")
    name = raw.decode("utf-8", "replace")
    honest = name in _HONEST or name in _TEXT_OPTIONS
    for refused, why in _REFUSED.items():
        if name == refused or (not honest and refused.startswith(name)):
            raise _refused("--" + name, why)
    for refused in _REFUSED_FOR.get(command, ()):
        if refused.startswith(name):
            raise _refused("--" + name, "it brings a configuration along")
    # As a prefix it could mean --strategy-option too, and git accepts it for neither.
    if name and "strategy".startswith(name):
        _check_strategy(value if equals else rest[0] if rest else b"")
    if name in _TEXT_OPTIONS:
        if not equals and name in ("message", "author", "date", "grep") and rest:
            del rest[0]
        return
    if equals:
        _check_path(value, folder, roots)


def _short(command: str, arg: bytes, rest: list[bytes], folder: bytes, roots: Roots) -> None:
    letters = arg[1:].decode("latin-1")
    refused = _REFUSED_LETTERS.get(command, {})
    texts, before = _TEXT_LETTERS.get(command, ("", ""))
    if command in _STRATEGY_COMMANDS and "s" in letters:
        _check_strategy(arg[arg.index(b"s") + 1 :] or (rest[0] if rest else b""))
    for at, letter in enumerate(letters):
        if letter in refused:
            raise _refused("-" + letter, refused[letter])
        if letter in texts:
            if at + 1 == len(letters) and rest:
                del rest[0]
            return
        if letter not in before:
            break
    # Which letter takes a value is not known here, so each may: `-aF/etc/passwd` is a file after F.
    if len(arg) > _LONGEST_ATTACHED:
        raise _refused(arg[:2].decode("latin-1"), "its value is too long; write it as a word of its own")
    for start in range(2, len(arg)):
        _check_path(arg[start:], folder, roots)


def _operand(command: str, arg: bytes, folder: bytes, roots: Roots) -> None:
    if command in REMOTE:
        if _HELPER.match(arg):
            raise _refused(arg.decode("utf-8", "replace"), "a remote helper is a program")
        url = _FILE_URL.match(arg)
        if url:
            _check_path(arg[url.end() :], folder, roots)
            return
    _check_path(arg, folder, roots)


def _check_path(path: bytes, folder: bytes, roots: Roots) -> None:
    """Refuse whatever could be a path that leads out. Branch names, ranges and messages never do, as paths."""
    if path:
        roots.resolve(path, folder)


def _check_strategy(name: bytes) -> None:
    if name not in STRATEGIES:
        raise _refused("a strategy that git itself does not have", _RUNS)


def _refused(option: str, why: str) -> ToolError:
    return ToolError("permission_denied", "git: %s is refused: %s" % (option, why))
