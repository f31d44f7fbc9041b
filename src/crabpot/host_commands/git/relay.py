"""From a git command's words to an operation that only waits for a person's word."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused
from crabpot.host_commands.git import fetch, outside, push, remotes, store
from crabpot.host_commands.git.names import shown
from crabpot.host_commands.git.prepared import Prepared

if TYPE_CHECKING:
    from crabpot.host_commands.git.inside import Repository
    from crabpot.host_commands.git.operation import Operation
    from crabpot.host_commands.git.prepared import GitContext, Telling
    from crabpot.host_commands.git.remotes import Remote

_MOST_REMOTES = 20


async def prepare(operation: Operation, ground: GitContext) -> Prepared:
    """Resolve what the words mean, inside, and say what would happen; HostRefused says why it cannot."""
    ground = replace(ground, inside=ground.inside.below(operation.folder))
    await asyncio.to_thread(store.prune, ground.state, ground.root, largest=ground.bounds.disk)
    if operation.kind == "clone":
        return fetch.prepare(
            operation, ground, await _judged(operation.remote or "", operation, ground), None, "origin"
        )
    if operation.kind == "ls-remote" and operation.remote is not None and _is_url(operation.remote):
        return fetch.prepare_listing(operation, ground, await _judged(operation.remote, operation, ground))
    known = await ground.inside.repository()
    if operation.every:
        return await _every(operation, ground, known)
    return await _one(operation, ground, known, known.remote_of(operation.remote))


async def _one(operation: Operation, ground: GitContext, known: Repository, name: str) -> Prepared:
    at = await _judged(known.url_of(name, pushes=operation.kind == "push"), operation, ground)
    if operation.kind == "push":
        return await push.prepare(operation, ground, at, known, name)
    if operation.kind == "ls-remote":
        return fetch.prepare_listing(operation, ground, at)
    followed = known.first(f"branch.{known.branch}.remote") == name and known.first(f"branch.{known.branch}.merge")
    if operation.kind == "pull" and not operation.names and not followed:
        raise HostRefused(
            "invalid_arguments",
            f"there is no tracking information for the current branch; say what to pull: git pull {name} BRANCH",
        )
    return fetch.prepare(operation, ground, at, known, name)


async def _every(operation: Operation, ground: GitContext, known: Repository) -> Prepared:
    """Fetch from all remotes, one after the other; a pull then joins what its branch follows."""
    names = [key.removeprefix("remote.").removesuffix(".url") for key in known.config if key.endswith(".url")]
    if not 0 < len(names) <= _MOST_REMOTES or not all(map(known.is_named, names)):
        raise HostRefused("denied", f"--all takes one to {_MOST_REMOTES} remotes with names that git takes")
    # The one that is pulled from comes last, so that what is joined is its own.
    last = known.remote_of(None)
    names.sort(key=lambda name: name == last)
    parts = []
    for name in names:
        kind = operation.kind if name == last else "fetch"
        parts.append(await _one(replace(operation, kind=kind, every=False), ground, known, name))

    async def run(telling: Telling) -> int:
        codes = [await part.carry_out(telling) for part in parts]
        return max(codes)

    return Prepared(
        url=", ".join(part.url for part in parts),
        lines=tuple(line for part in parts for line in part.lines),
        dangers=tuple(dict.fromkeys(mark for part in parts for mark in part.dangers)),
        bound=tuple(word for part in parts for word in part.bound),
        _run=run,
        _clock=ground.clock,
    )


def _is_url(word: str) -> bool:
    return ":" in word or "/" in word


async def _judged(url: str, operation: Operation, ground: GitContext) -> Remote:
    """Judge where a remote is, and where the operator's own `insteadOf` would lead it."""
    judge = partial(remotes.judge, folder=ground.folder, written=ground.written, secrets=ground.secrets)
    # In a thread: a path may lie on a disk that does not answer.
    at = await asyncio.to_thread(judge, url)
    async with (
        store.held(ground.state, store.name(ground.root, at.url), ground.clock, largest=ground.bounds.disk) as own,
        outside.as_operator(ground.git, own, ground.clock, ground.env, path=None, bounds=ground.bounds) as git,
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
    """Give what the longest `pushInsteadOf` that fits makes of a URL, as git does where it pushes."""
    found = [(value, key) for key, _, value in (pair.partition("\n") for pair in listed.split("\0")) if value]
    fitting = [(value, key) for value, key in found if url.startswith(value)]
    if not fitting:
        return None
    value, key = max(fitting, key=lambda one: len(one[0]))
    return key.removeprefix("url.").removesuffix(".pushinsteadof") + url.removeprefix(value)
