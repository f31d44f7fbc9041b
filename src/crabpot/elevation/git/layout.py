"""Where a repository's parts lie: an agent may point any of them at the operator's own files, for git to write there.

Looked at by the letter of the disk while the sandboxes that could change it stand still.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

# Beyond that, looking takes longer than a person waits for.
_MOST_ENTRIES = 1_000_000
_MOST_NESTED = 100
_DEEPEST_ALTERNATES = 5
_LONGEST_PLAN = 1 << 20

_STRATEGIES = frozenset({"", "ort", "recursive", "resolve", "octopus", "ours", "subtree"})
_STRATEGY = re.compile(r"strategy\s*=\s*(.*)", re.IGNORECASE)


def is_in(path: str, tree: str) -> bool:
    """Tell whether a path, with its links resolved, is a folder or lies in it."""
    return os.path.commonpath([os.path.realpath(path), os.path.realpath(tree)]) == os.path.realpath(tree)


def pointer_of(start: str) -> str:
    """Find what leads git to its repository, upwards from a folder: a `.git`, or the path itself where it is one."""
    folder = os.path.realpath(start)
    if os.path.basename(start) == ".git" or not os.path.isdir(folder):
        return start
    while folder != "/":
        if os.path.lexists(f"{folder}/.git"):
            return f"{folder}/.git"
        folder = os.path.dirname(folder)
    return start


def check_git_dir(git_dir: str, root: str) -> None:
    """Refuse a git folder of which some part leads out of what the agent may write anyway."""
    for path in _links(git_dir):
        if not is_in(path, root):
            raise _leads_out(path, os.path.realpath(path), root)
    _check_alternates(f"{git_dir}/objects", root, _DEEPEST_ALTERNATES)


def check_inside(what: str, path: str, root: str) -> None:
    """Refuse a part of a repository that lies elsewhere."""
    if not is_in(path, root):
        raise _leads_out(what, path, root)


def hooks(git_dir: str) -> list[str]:
    """List the hooks that git would run."""
    try:
        found = sorted(os.scandir(f"{git_dir}/hooks"), key=lambda entry: entry.name)
    except OSError:
        return []
    return [entry.name for entry in found if not entry.name.endswith(".sample") and os.access(entry.path, os.X_OK)]


def begun(git_dir: str) -> str | None:
    """Say what a begun rebase, cherry-pick or revert would run when it goes on, or None."""
    for step in _lines(f"{git_dir}/rebase-merge/git-rebase-todo"):
        if step.split()[:1] in (["x"], ["exec"]):
            return step
    # Another strategy is a program by its name, which may have slashes in it.
    strategies = _lines(f"{git_dir}/rebase-merge/strategy")
    strategies += [value for line in _lines(f"{git_dir}/sequencer/opts") for value in _STRATEGY.findall(line)]
    return next((f"the strategy {name}" for name in strategies if name not in _STRATEGIES), None)


def _lines(path: str) -> list[str]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            text = file.read(_LONGEST_PLAN) if stat.S_ISREG(os.fstat(fd).st_mode) else None
            if text is None or file.read(1):
                raise HostRefused("denied", f"{path} is no plan that anybody could read")
            return [line.decode("utf-8", "replace").strip() for line in re.split(rb"[\r\n]", text)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise HostRefused("denied", f"{path} cannot be read: {error.strerror}") from None


def kept(common_dir: str) -> list[str]:
    """List the git folders that lie in another: of submodules, checked out or not, and of further work trees."""
    found = []
    for top in (f"{common_dir}/modules", f"{common_dir}/worktrees"):
        for folder, folders, files in os.walk(top):
            for path in (folder, *(f"{folder}/{name}" for name in folders)):
                if os.path.islink(path):
                    raise HostRefused("denied", f"{path} is a link, which git would follow to another repository")
            if "HEAD" in files:
                found.append(folder)
                folders[:] = [name for name in folders if name == "modules"]
            if len(found) > _MOST_NESTED:
                raise HostRefused("denied", f"{common_dir} holds more than {_MOST_NESTED} other repositories")
    return sorted(found)


def nested(top: str) -> list[str]:
    """List the folders below that have a `.git` of their own: git goes into them on its own account."""
    found, seen = [], 0
    for folder, folders, files in os.walk(top):
        seen += len(folders) + len(files)
        if seen > _MOST_ENTRIES:
            raise HostRefused("denied", f"{top} holds too many files to look for repositories in repositories")
        if folder != top and (".git" in folders or ".git" in files):
            found.append(folder)
        if ".git" in folders:
            folders.remove(".git")
    if len(found) > _MOST_NESTED:
        raise HostRefused("denied", f"{top} holds more than {_MOST_NESTED} repositories in repositories")
    return sorted(found)


def _links(git_dir: str) -> Iterator[str]:
    """List every link in a git folder, but for those among the objects: they are read by their digest."""
    seen = 0
    for folder, folders, files in os.walk(git_dir):
        seen += len(folders) + len(files)
        if seen > _MOST_ENTRIES:
            raise HostRefused("denied", f"{git_dir} holds too many files to look through")
        yield from (path for name in (*folders, *files) if os.path.islink(path := f"{folder}/{name}"))
        if os.path.basename(folder) == "objects":
            folders[:] = [name for name in folders if name in ("info", "pack")]


def _check_alternates(objects: str, root: str, deep: int) -> None:
    try:
        with open(f"{objects}/info/alternates", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostRefused("denied", f"{objects}/info/alternates cannot be read: {error.strerror}") from None
    for line in lines:
        if not line or line.startswith("#"):
            continue
        path = os.path.join(objects, line)
        # One in quotes is read by git's own rules; nobody needs it.
        if line.startswith('"') or deep == 0 or not is_in(path, root):
            raise _leads_out(f"{objects}/info/alternates", line, root)
        _check_alternates(path, root, deep - 1)


def _leads_out(what: str, where: str, root: str) -> HostRefused:
    return HostRefused(
        "denied", f"{what} leads to {where}, out of {root}: git would read or write there for whoever wrote the folder"
    )
