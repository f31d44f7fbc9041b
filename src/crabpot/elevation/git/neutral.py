"""Look at the repository that git would find, refuse what cannot be neutralised, and give the environment for the rest.

What git would obey is asked of git itself, in the same folder, with the same words before its command: whatever reads
configuration otherwise would one day read it differently.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.elevation.git import keys, layout, serving
from crabpot.elevation.git.reading import Git
from crabpot.errors import HostRefused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from crabpot.elevation.folders import Folder
    from crabpot.elevation.git.reading import Repository
    from crabpot.elevation.git.words import GitWords

# Whatever the repository says. `safe.directory`: what makes a foreign repository dangerous is just what is kept out.
ALWAYS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("safe.directory", "*"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    # Their processes would outlive the command.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    # The first `core.gitProxy` counts, so that no later one can stand in for it; this does.
    "GIT_PROXY_COMMAND": "",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}

_NO_PATHS = "git:http:https:ssh"
_LONGEST_SHOWN = 200
_MOST_KEPT_OUT = 1000
# As many as the terminal shows of a list.
_MOST_PLACES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Neutral:
    """A repository that runs nothing: what git's environment must hold, and what a person is told."""

    env: Mapping[str, str]
    lines: tuple[str, ...]
    config: tuple[tuple[str, str], ...] = field(repr=False)
    """Every key and value of the repository's own, as they were when a person was told."""
    dangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the repository of a folder, which can be taken again."""

    git: str
    words: GitWords
    folder: Folder
    env: Mapping[str, str] = field(repr=False)
    written: tuple[str, ...]
    """What sandboxes may write."""
    state: str | None
    """Where programs of ours are kept; None if git will run as a user who cannot reach them."""

    async def take(self) -> Neutral:
        """Look at the repository and at those in it; HostRefused names what cannot be kept out."""
        asked = Git(program=self.git, env={**self.env, **VARIABLES, **overrides(ALWAYS), "LC_ALL": "C"})
        base = {**VARIABLES, **await self._serving(asked)}
        found = await asked.repository(self.folder.entry, self.words.leading)
        if found is None:
            return Neutral(env={**base, **overrides(ALWAYS)}, lines=(), config=())
        await asyncio.to_thread(self._check_outer, found)
        local, lines = [*found.local], _told(found.git_dir)
        async for inner in self._inner(asked, found):
            local += inner.local
        kept_out = _judged(local)
        # Where things go comes first: what is kept out does no harm, and could be planted to hide what does.
        places = list(
            dict.fromkeys(f"git config {key} = {_short(value)}" for key, value in local if keys.says_where(key))
        )
        places.sort(key=lambda line: "insteadof = " not in line)
        lines = [*places, *(f"git config {key} = {_short(value)} (kept out)" for key, value in kept_out), *lines]
        # Another user's settings are not the gateway's to give.
        pairs = [*ALWAYS, *_stand_ins(kept_out, () if self.state is None else found.operators)]
        return Neutral(
            env={**base, **overrides(pairs)},
            lines=tuple(dict.fromkeys(lines)),
            config=tuple(local),
            dangers=(f"the repository names {len(places)} places; read them all",)
            if len(places) > _MOST_PLACES
            else (),
        )

    async def _inner(self, asked: Git, found: Repository) -> AsyncIterator[Repository]:
        """Give the repositories in a repository, checked out or not: git may go into each."""
        nested = await asyncio.to_thread(layout.nested, found.top) if found.top else []
        looks: list[tuple[str, tuple[str, ...]]] = [(path, ()) for path in nested]
        seen = {found.git_dir}
        looks += [(path, ("--git-dir=.",)) for path in await asyncio.to_thread(layout.kept, found.common_dir)]
        for path, leading in looks:
            inner = await asked.repository(path, leading)
            if inner is None or inner.git_dir in seen or not self._is_written(path):
                continue
            seen.add(inner.git_dir)
            await asyncio.to_thread(self._check_inner, path, inner)
            if not leading:
                looks += [(one, ("--git-dir=.",)) for one in await asyncio.to_thread(layout.kept, inner.common_dir)]
            yield inner

    async def _serving(self, asked: Git) -> dict[str, str]:
        """See that no repository of an agent's is served: by programs of ours, or by serving none from a path."""
        if self.state is None:
            return {"GIT_ALLOW_PROTOCOL": _NO_PATHS}
        folders = "\n".join(os.path.realpath(tree) for tree in self.written)
        programs = serving.prepare(self.state, await asked.exec_path())
        return {"GIT_EXEC_PATH": programs, serving.FOLDERS: folders}

    def _is_written(self, path: str) -> bool:
        return any(layout.is_in(path, tree) for tree in (self.folder.root, *self.written))

    def _check_outer(self, found: Repository) -> None:
        """Refuse a repository that an agent points to elsewhere, or that another sandbox may write meanwhile."""
        root = self.folder.root
        if layout.is_in(found.git_dir, root):
            layout.check_inside("the common git folder", found.common_dir, root)
            layout.check_inside("the work tree", found.top or root, root)
            for path in dict.fromkeys((found.git_dir, found.common_dir)):
                layout.check_git_dir(path, root)
            return
        pointer = layout.pointer_of(os.path.join(self.folder.path, self.words.pointer))
        if self._is_written(os.path.dirname(pointer)):
            layout.check_inside(pointer, found.git_dir, root)
        for path in (found.git_dir, found.common_dir):
            if self._is_written(path):
                raise HostRefused("denied", f"{path} lies in a folder that another sandbox may write while git runs")

    def _check_inner(self, path: str, inner: Repository) -> None:
        root = self.folder.root
        parts = (f"{path}/.git", inner.git_dir), ("its common git folder", inner.common_dir)
        for what, where in (*parts, (f"the work tree of {path}", inner.top or path)):
            layout.check_inside(what, where, root)
        for folder in dict.fromkeys((inner.git_dir, inner.common_dir)):
            layout.check_git_dir(folder, root)
        _told(inner.git_dir)


def _told(git_dir: str) -> list[str]:
    runs = layout.begun(git_dir)
    if runs is not None:
        raise HostRefused("denied", f"a begun rebase or cherry-pick would run what {git_dir} says: {_short(runs)}")
    return [f"git hook {name} (kept out)" for name in layout.hooks(git_dir)]


def overrides(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give configuration by the environment, which comes after every file's and reaches git's own children."""
    env = {}
    count = 0
    for key, value in pairs:
        env[f"GIT_CONFIG_KEY_{count}"], env[f"GIT_CONFIG_VALUE_{count}"] = key, value
        count += 1
    return {**env, "GIT_CONFIG_COUNT": str(count)}


def _judged(local: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Give what is kept out; refuse what cannot be."""
    kept_out = []
    for key, value in local:
        judged = keys.judge(key)
        if judged.fate == "refused":
            why = f"git config {key} = {_short(value)} cannot be kept out: {judged.because}"
            raise HostRefused("denied", f"{why}; remove it from the repository")
        if judged.fate == "kept out":
            kept_out.append((key, value))
    if len(kept_out) > _MOST_KEPT_OUT:
        raise HostRefused("denied", f"the repository sets more than {_MOST_KEPT_OUT} keys that must be kept out")
    return kept_out


def _stand_ins(kept_out: list[tuple[str, str]], operators: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Give each key kept out its neutral value, and after it whatever the operator's own files say."""
    pairs = []
    for key in dict.fromkeys(key for key, _ in kept_out):
        pairs.append((key, keys.judge(key).neutral))
        pairs += [(key, value) for other, value in operators if other == key]
    return pairs


def _short(value: str) -> str:
    """Shorten what is shown; the digest keeps a lease from covering another value that begins alike."""
    if len(value) <= _LONGEST_SHOWN:
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{value[:_LONGEST_SHOWN]}… (in all {len(value)} characters, sha256 {digest}…)"
