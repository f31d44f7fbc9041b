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
_PREFIX = "refs/heads/"
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
    """Return the branches inside that the person's repository does not have as they are."""
    with opened(layer.folder) as tree:
        there = await asyncio.to_thread(person.branches, tree)
    words = ("for-each-ref", f"--count={_MOST + 1}", "--format=%(objectname) %(refname)", "refs/heads")
    inside = _parsed(await context.inside.ask(*words, most=_MOST_TEXT))
    known = sorted(await context.inside.existing(set(there.values())))
    found = []
    for ref, tip in inside.items():
        if there.get(ref) == tip or tip in known:
            continue
        excluded = [f"^{one}" for one in known[:_MOST]]
        counted = (await context.inside.ask("rev-list", "--count", tip, *excluded, "--")).strip()
        count = int(counted) if counted.isascii() and counted.isdigit() and len(counted) < 10 else 0  # noqa: PLR2004
        if count:
            found.append(Branch(name=ref.removeprefix(_PREFIX), start=there.get(ref), tip=tip, count=count))
    return found


def _parsed(listed: str) -> dict[str, str]:
    found = {}
    for line in listed.splitlines()[:_MOST]:
        object_id, _, name = line.partition(" ")
        if is_id(object_id) and is_ref(name) and name.startswith(_PREFIX):
            found[name] = object_id
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
