"""Commits of a session under review: told by git inside, and brought to the person's repository as branches.

A pack made inside is checked in a repository of the gateway's own, and fetched from there. The person's repository runs
nothing meanwhile: no hook, no monitor, no maintenance.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.errors import HostRefused
from crabpot.host_commands.git import outside, store
from crabpot.host_commands.git.gate import TIPS
from crabpot.host_commands.git.names import is_id, is_ref
from crabpot.host_commands.git.push import bring
from crabpot.host_commands.review import person
from crabpot.layers.changes.tree import opened
from crabpot.spec.naming import sandbox_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabpot.host_commands.git.prepared import GitContext
    from crabpot.layers.layer import Layer

_MOST = 200
_MOST_TEXT = 256 << 10
_URL = "crabpot:review"
_NO_CONFIGURATION = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
_PREFIX, _TAGS = "refs/heads/", "refs/tags/"
# Of an annotated tag, what it is of.
_COMMIT_AND_NAME = (
    "%(if)%(*objectname)%(then)%(*objecttype) %(*objectname)%(else)%(objecttype) %(objectname)%(end) %(refname)"
)
_TAKEN = re.compile(r"[^A-Za-z0-9._/-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch on which the agent committed."""

    name: str
    start: str | None
    tip: str
    count: int

    def as_json(self) -> dict[str, Any]:
        """Return the shape of `changes list --json`."""
        return {"branch": self.name, "from": self.start, "to": self.tip, "count": self.count}


async def made(context: GitContext, layer: Layer) -> list[Branch]:
    """Return what the agent committed to: branches that the person's repository does not have as they are.

    Commits that are on no branch, but where HEAD stands or at a tag, are offered as branches too.
    """
    with opened(layer.folder) as tree:
        there = await asyncio.to_thread(person.branches, tree)
        head = await asyncio.to_thread(person.detached_head, tree)
    known = sorted(await context.inside.existing({*there.values(), *(() if head is None else (head,))}))
    found: list[Branch] = []
    for name, tip in await _refs(context, _PREFIX):
        start = there.get(f"{_PREFIX}{name}")
        if tip != start and tip not in known:
            found += await _new(context, name, tip, start, known)
    for name, tip in await _elsewhere(context):
        # What is on a branch of the agent's needs no other name.
        tips = [one.tip for one in found]
        if tip not in (*known, *tips):
            found += await _new(context, name, tip, None, [*known, *tips])
    return found


async def _new(context: GitContext, name: str, tip: str, start: str | None, known: Sequence[str]) -> list[Branch]:
    """Return the branch of a tip, if it has commits that are not known."""
    excluded = [f"^{one}" for one in known[-_MOST:]]
    counted = (await context.inside.ask("rev-list", "--count", tip, *excluded, "--")).strip()
    count = int(counted) if counted.isascii() and counted.isdigit() and len(counted) < 10 else 0  # noqa: PLR2004
    return [Branch(name=name, start=start, tip=tip, count=count)] if count else []


async def _elsewhere(context: GitContext) -> list[tuple[str, str]]:
    """Return where commits may be that are on no branch: a detached HEAD, and tags; with the names that they get."""
    found = [(f"tag-{name}", tip) for name, tip in await _refs(context, _TAGS)]
    if not (await context.inside.ask("symbolic-ref", "--quiet", "HEAD", fails=True)).strip():
        head = (await context.inside.ask("rev-parse", "--quiet", "--verify", "HEAD^{commit}", fails=True)).strip()
        found = [("detached-HEAD", head), *found] if is_id(head) else found
    return found


async def _refs(context: GitContext, prefix: str) -> list[tuple[str, str]]:
    """Return the names and commits of the refs below a prefix; a tag of anything else has none."""
    words = ("for-each-ref", f"--count={_MOST}", f"--format={_COMMIT_AND_NAME}", prefix)
    found = []
    for line in (await context.inside.ask(*words, most=_MOST_TEXT)).splitlines()[:_MOST]:
        kind, object_id, name = (*line.split(" ", 2), "", "")[:3]
        if kind == "commit" and is_id(object_id) and is_ref(name) and name.startswith(prefix):
            found.append((name.removeprefix(prefix), object_id))
    return found


async def land(context: GitContext, layer: Layer, branches: Sequence[Branch]) -> list[str]:
    """Bring branches to the person's repository under names of their own; return those names."""
    problem = person.problem_with(layer.folder)
    if problem is not None:
        raise HostRefused("denied", problem)
    async with store.held(
        context.state, store.name(layer.folder, _URL), context.clock, largest=context.bounds.disk
    ) as own:
        async with outside.local(context.git, own, context.clock, context.bounds) as local:
            await bring(context.inside, local, list(dict.fromkeys(one.tip for one in branches)))
            await asyncio.to_thread(store.check, own, largest=context.bounds.disk)
        await _fetch(context, layer, own, branches)
    await asyncio.to_thread(_give_back, os.path.join(layer.folder, ".git"))
    return [target_of(layer, one.name) for one in branches]


def target_of(layer: Layer, branch: str) -> str:
    """Return the name of a branch in the person's repository: `crabpot/<slug of the session>/<branch>`."""
    slug = sandbox_name(layer.session).removeprefix("crabpot-")
    return f"crabpot/{slug}/{_TAKEN.sub('-', branch)}"


async def _fetch(context: GitContext, layer: Layer, own: store.Store, branches: Sequence[Branch]) -> None:
    git_folder = os.path.join(layer.folder, ".git")
    env = {"PATH": "/usr/bin:/bin", "HOME": own.empty, "LC_ALL": "C", **_NO_CONFIGURATION}
    async with outside.as_operator(context.git, own, context.clock, env, path=git_folder, bounds=None) as git:
        # A name is forced: it is ours, and an agent may rewrite what it committed.
        specs = [f"+refs/namespaces/made/{TIPS}{one.tip}:refs/heads/{target_of(layer, one.name)}" for one in branches]
        await git.ask(
            *(f"--git-dir={git_folder}", "-c", "safe.directory=*"),
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
            *("--no-recurse-submodules", "--", own.path, *specs),
        )


def _give_back(git_folder: str) -> None:
    """Change the owner of what root's git wrote to the repository's."""
    facts = os.lstat(git_folder)
    if os.geteuid() != 0 or facts.st_uid == 0:
        return
    for top in ("objects", "refs/heads/crabpot", "logs/refs/heads/crabpot"):
        for _, folders, files, handle in os.fwalk(os.path.join(git_folder, top), follow_symlinks=False):
            for name in (".", *folders, *files):
                if os.stat(name, dir_fd=handle, follow_symlinks=False).st_uid == 0:
                    os.chown(name, facts.st_uid, facts.st_gid, dir_fd=handle, follow_symlinks=False)
    packed = os.path.join(git_folder, "packed-refs")
    if os.path.lexists(packed):
        os.chown(packed, facts.st_uid, facts.st_gid, follow_symlinks=False)
