"""Start git for a client of the socket: check the repository first, in the process that then becomes git."""

from __future__ import annotations

import os
import posix

from ..exec import spawn
from . import gitconfig, gitfolder
from .gitargs import REMOTE
from .gitsettings import RUNS_NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, NoReturn

    from ..exec.spawn import Spawned
    from .gitargs import GitCall
    from .roots import Roots

_REFUSED = 126
_LARGEST_LISTING = 64 << 20
# A look at a repository must not run what it names either.
_QUIETLY = tuple(
    word
    for pair in (("safe.directory", "*"), *RUNS_NOTHING.items())
    for word in (b"-c", ("%s=%s" % pair).encode("ascii"))
)
_GITLINK = b"160000 "
_MOST_EMBEDDED = 32
# They look into the repositories inside the worktree.
_ASKING = frozenset(
    "add am apply checkout cherry-pick clean commit describe diff diff-files diff-index grep merge mv pull read-tree "
    "rebase reset restore revert rm stash status switch update-index worktree".split()
)
# They continue what was begun.
_GOING_ON = frozenset(("cherry-pick", "rebase", "revert"))
_DIFFS = frozenset(("diff", "diff-files", "diff-index", "diff-tree", "format-patch", "log", "show", "whatchanged"))


def start(  # noqa: PLR0913  # all of it is needed in the fork
    git: bytes, call: GitCall, env: dict[bytes, bytes], roots: Roots, *, stdin: bool, release: Callable[[], None]
) -> Spawned:
    """Fork; the child checks and becomes git, so no check of a hostile repository ever holds up the runner."""
    return spawn.spawn_forked(lambda: _become(git, call, env, roots), stdin=stdin, release=release)


def _become(git: bytes, call: GitCall, env: dict[bytes, bytes], roots: Roots) -> None:
    look = [git, *_QUIETLY, *call.globals]
    listing = _capture([*look, b"config", b"--list", b"-z"], env)
    entries = gitconfig.read(listing or b"")
    where = _capture([*look, b"rev-parse", b"--path-format=absolute", b"--git-dir", b"--git-common-dir"], env)
    folders = [] if where is None else where.splitlines()
    # First of all: every further look would go through such a link as well.
    planted = gitfolder.refusal(folders[-1]) if folders and roots.holds(os.path.realpath(folders[-1])) else None
    if planted is not None:
        _refuse(planted)
    asking = folders and call.command in _ASKING
    embedded = _embedded([git, *_QUIETLY], look, env) if asking else []
    why = gitconfig.refusal(entries, embedded or [], folders, roots, remote=call.command in REMOTE)
    if embedded is None:
        why = "the repositories inside its worktree cannot all be inspected"
    if listing is None:
        why = "the repository's configuration cannot be read"
    if why is None and call.command == "worktree" and any(key == "extensions.worktreeconfig" for key, _ in entries):
        why = "its worktrees have configurations of their own, which git would obey in them"
    if why is None and call.command in _GOING_ON and folders and _runs_programs(folders[0]):
        why = "the rebase or cherry-pick that is under way runs a program (remove its state to give it up)"
    if why is not None:
        _refuse(why)
    options = [b"--no-pager", *gitconfig.overrides(entries, embedded or [])]
    posix.execve(git, [b"git", *options, *call.globals, call.command.encode(), *_added(call.command), *call.args], env)


def _refuse(why: str) -> NoReturn:
    posix.write(2, b"crabpot runner: git is refused here: %s\n" % why.encode("utf-8", "replace"))
    posix._exit(_REFUSED)  # noqa: SLF001


def _embedded(quiet: list[bytes], look: list[bytes], env: dict[bytes, bytes]) -> list[tuple[str, str]] | None:
    """Return the configuration of the repositories inside the worktree, and in theirs; None if it cannot be read.

    What git runs in them inherits our options, but names of filters and drivers are each repository's own.
    """
    entries: list[tuple[str, str]] = []
    todo = [look]
    for count, at in enumerate(todo):
        if count > _MOST_EMBEDDED:
            return None
        if count:
            listing = _capture([*at, b"config", b"--list", b"-z"], env)
            if listing is None:
                return None
            entries += gitconfig.read(listing)
        top = (_capture([*at, b"rev-parse", b"--show-toplevel"], env) or b"").rstrip(b"\n")
        if not top:
            continue
        listed = _capture([*quiet, b"-C", top, b"ls-files", b"--stage", b"-z"], env)
        if listed is None:
            return None
        links = [line.partition(b"\t")[2] for line in listed.split(b"\0") if line.startswith(_GITLINK)]
        places = [os.path.join(top, link) for link in links]
        todo += [[*quiet, b"-C", place] for place in places if os.path.lexists(os.path.join(place, b".git"))]
    return entries


def _added(command: str) -> list[bytes]:
    """Return options of the command itself that keep it from running what a repository says."""
    if command in ("clone", "fetch", "ls-remote", "pull"):
        return [b"--upload-pack=" + gitconfig.UPLOAD_PACK.encode()]
    if command == "push":
        return [b"--receive-pack=" + gitconfig.RECEIVE_PACK.encode()]
    added = [b"--no-ext-diff", b"--no-textconv"] if command in _DIFFS else []
    return [*added, b"--ignore-submodules=dirty"] if command in ("diff", "status") else added


def _capture(argv: list[bytes], env: dict[bytes, bytes]) -> bytes | None:
    """Return what a git command prints, or None if it fails."""
    reader, writer = posix.pipe2(posix.O_CLOEXEC)
    actions = [(posix.POSIX_SPAWN_DUP2, writer, 1), (posix.POSIX_SPAWN_OPEN, 2, "/dev/null", posix.O_WRONLY, 0)]
    pid = posix.posix_spawn(argv[0], argv, env, file_actions=actions)
    posix.close(writer)
    with os.fdopen(reader, "rb") as file:
        printed = file.read(_LARGEST_LISTING)
    status = posix.waitpid(pid, 0)[1]
    return printed if status == 0 else None


def _runs_programs(folder: bytes) -> bool:
    state = (b"rebase-merge/git-rebase-todo", b"rebase-merge/strategy", b"sequencer/opts")
    return gitconfig.runs_programs(*(_content(os.path.join(folder, name)) for name in state))


def _content(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST_LISTING)
    except OSError:
        return b""
