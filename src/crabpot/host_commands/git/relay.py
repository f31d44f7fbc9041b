"""Prepare a git command as an operation that is ready to run once a person agrees."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused
from crabpot.host_commands.git import fetch, ls_remote, outside, push, remotes, store
from crabpot.host_commands.git.names import shown
from crabpot.host_commands.git.prepared import Prepared

if TYPE_CHECKING:
    from crabpot.host_commands.git.inside import Repository
    from crabpot.host_commands.git.operation import Operation
    from crabpot.host_commands.git.prepared import GitContext, Telling
    from crabpot.host_commands.git.remotes import Remote

_MOST_REMOTES = 20


async def prepare(operation: Operation, context: GitContext) -> Prepared:
    """Resolve the arguments inside, and prepare what would happen; HostRefused says why it cannot."""
    context = replace(context, inside=context.inside.below(operation.folder))
    await asyncio.to_thread(store.prune, context.state, context.root, largest=context.bounds.disk)
    if operation.kind == "clone":
        return fetch.prepare(
            operation, context, await _judged(operation.remote or "", operation, context), None, "origin"
        )
    if operation.kind == "ls-remote" and operation.remote is not None and _is_url(operation.remote):
        return ls_remote.prepare(operation, context, await _judged(operation.remote, operation, context))
    known = await context.inside.repository()
    if operation.every:
        return await _every(operation, context, known)
    return await _one(operation, context, known, known.remote_of(operation.remote))


async def _one(operation: Operation, context: GitContext, known: Repository, name: str) -> Prepared:
    at = await _judged(known.url_of(name, pushes=operation.kind == "push"), operation, context)
    if operation.kind == "push":
        return await push.prepare(operation, context, at, known, name)
    if operation.kind == "ls-remote":
        return ls_remote.prepare(operation, context, at)
    followed = known.first(f"branch.{known.branch}.remote") == name and known.first(f"branch.{known.branch}.merge")
    if operation.kind == "pull" and not operation.names and not followed:
        raise HostRefused(
            "invalid_arguments",
            f"there is no tracking information for the current branch; say what to pull: git pull {name} BRANCH",
        )
    return fetch.prepare(operation, context, at, known, name)


async def _every(operation: Operation, context: GitContext, known: Repository) -> Prepared:
    """Prepare a fetch from all remotes, one after the other; a pull then merges what its branch follows."""
    names = [key.removeprefix("remote.").removesuffix(".url") for key in known.config if key.endswith(".url")]
    if not 0 < len(names) <= _MOST_REMOTES or not all(map(known.is_named, names)):
        raise HostRefused("denied", f"--all takes one to {_MOST_REMOTES} remotes with names that git takes")
    # The remote that is pulled from comes last, so that its branch is what gets merged.
    last = known.remote_of(None)
    names.sort(key=lambda name: name == last)
    parts = []
    for name in names:
        kind = operation.kind if name == last else "fetch"
        parts.append(await _one(replace(operation, kind=kind, every=False), context, known, name))

    async def run(telling: Telling) -> int:
        codes = [await part.carry_out(telling) for part in parts]
        return max(codes)

    return Prepared(
        url=", ".join(part.url for part in parts),
        lines=tuple(line for part in parts for line in part.lines),
        dangers=tuple(dict.fromkeys(mark for part in parts for mark in part.dangers)),
        bound=tuple(word for part in parts for word in part.bound),
        _run=run,
        _clock=context.clock,
    )


def _is_url(word: str) -> bool:
    return ":" in word or "/" in word


async def _judged(url: str, operation: Operation, context: GitContext) -> Remote:
    """Judge where a remote is, and where the operator's own `insteadOf` redirects it."""
    judge = partial(remotes.judge, folder=context.folder, written=context.written, secrets=context.secrets)
    # In a thread: a path may be on a disk that does not respond.
    at = await asyncio.to_thread(judge, url)
    async with (
        store.held(context.state, store.name(context.root, at.url), context.clock, largest=context.bounds.disk) as own,
        outside.as_operator(context.git, own, context.clock, context.env, path=None, bounds=context.bounds) as git,
    ):
        led = (await git.ask("ls-remote", "--get-url", "--", at.url)).strip()
        if operation.kind == "push":
            listed = await git.ask("config", "-z", "--get-regexp", r"^url\..*\.pushinsteadof$", fails=True)
            led = _pushed(at.url, listed) or led
    if led == at.url:
        return at
    leads = await asyncio.to_thread(judge, led)
    return replace(
        leads, url=at.url, marks=(*leads.marks, f"your git configuration turns {shown(at.url)} into {shown(led)}")
    )


def _pushed(url: str, listed: str) -> str | None:
    """Return a URL rewritten by the longest matching `pushInsteadOf`, as git does when it pushes."""
    found = [(value, key) for key, _, value in (pair.partition("\n") for pair in listed.split("\0")) if value]
    fitting = [(value, key) for value, key in found if url.startswith(value)]
    if not fitting:
        return None
    value, key = max(fitting, key=lambda one: len(one[0]))
    return key.removeprefix("url.").removesuffix(".pushinsteadof") + url.removeprefix(value)
