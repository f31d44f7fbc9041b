"""Push: the tips enter the gateway's own repository, are checked there, and are pushed from there by their ids."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused
from crabpot.host_commands.git import outside, store
from crabpot.host_commands.git.carrying import connect
from crabpot.host_commands.git.gate import TIPS, Gate
from crabpot.host_commands.git.inside import FD_REMOTE
from crabpot.host_commands.git.names import is_id, is_name, shown
from crabpot.host_commands.git.prepared import Prepared
from crabpot.host_commands.git.updates import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabpot.host_commands.git.inside import Inside, Repository
    from crabpot.host_commands.git.operation import Operation
    from crabpot.host_commands.git.outside import Outside
    from crabpot.host_commands.git.prepared import GitContext, Telling
    from crabpot.host_commands.git.remotes import Remote
    from crabpot.host_commands.git.updates import Update

_MOST_TIPS = 200
_PORCELAIN = re.compile(r"([ +\-*=!])\t([^\t]*):(refs/[^\t]+)\t(.*)")
# A namespace, so that whatever the agent calls its refs, they never replace those that record the remote.
_RECEIVE = ("--namespace=made", "receive-pack")
# Whatever an agent's repository has set for its pushes.
_PLAIN = tuple(word for key, value in outside.PLAIN_PUSH.items() for word in ("-c", f"{key}={value}"))


async def prepare(operation: Operation, context: GitContext, at: Remote, known: Repository, name: str) -> Prepared:
    """Bring the tips into the gateway's repository, and return what a push would do."""
    updates = await resolve(operation, context.inside, known, name)
    tips = tuple(dict.fromkeys(update.tip for update in updates if update.tip is not None))
    async with (
        store.held(context.state, store.name(context.root, at.url), context.clock, largest=context.bounds.disk) as own,
        outside.local(context.git, own, context.clock, context.bounds) as local,
    ):
        await bring(context.inside, local, tips)
        await asyncio.to_thread(store.check, own, largest=context.bounds.disk)
        lines = [await _line(local, update) for update in updates]

    async def run(telling: Telling) -> int:
        return await _push(operation, context, at, updates, telling, tracking=name if known.is_named(name) else None)

    marks = [
        *(f"FORCES {shown(one.target)}: what the remote has there may be lost" for one in updates if one.overwrites),
        *(f"DELETES {shown(one.target)}" for one in updates if one.tip is None),
        *at.marks,
    ]
    kind = "push --dry-run" if operation.dry_run else "push"
    bound = tuple(f"{'+' if one.overwrites else ''}{'' if one.tip else ':'}{one.target}" for one in updates)
    flags = ("upstream",) if operation.upstream else ()
    return Prepared(
        url=at.url,
        lines=(f"{kind} to {shown(at.url)}", *lines),
        dangers=tuple(marks),
        bound=(kind, at.url, *bound, *flags),
        _run=run,
        _clock=context.clock,
    )


async def bring(inside: Inside, local: Outside, tips: Sequence[str]) -> None:
    """Make git inside push the tips into the gateway's repository, where they are checked."""
    if not tips:
        return
    kept = (await local.ask("for-each-ref", "--format=%(refname)", "refs/namespaces/made")).split()
    if len(kept) > _MOST_TIPS:
        # They say which objects need not be sent again; the objects themselves stay.
        await local.ask("update-ref", "--stdin", text="".join(f"delete {one}\n" for one in kept).encode())
    said = bytearray()

    async def keep(_stream: str, data: bytes) -> None:
        if len(said) < 1 << 16:
            said.extend(data)

    words = (*_PLAIN, "push", "--no-verify", "--quiet", FD_REMOTE, *(f"{tip}:{TIPS}{tip}" for tip in tips))
    code = await connect(inside, words, local, _RECEIVE, tell=keep, judge=Gate(tips).pass_on)
    listed = await local.ask("for-each-ref", "--format=%(objectname) %(refname)", f"refs/namespaces/made/{TIPS}")
    arrived = dict(line.split(" ", 1)[::-1] for line in listed.splitlines())
    missing = [tip for tip in tips if arrived.get(f"refs/namespaces/made/{TIPS}{tip}") != tip]
    if code != 0 or missing:
        reason = said.decode("utf-8", "replace").strip()[-4000:]
        raise HostRefused("denied", f"what would be pushed was refused, and nothing left the sandbox:\n{reason}")


async def _line(local: Outside, update: Update) -> str:
    """Return what happens to one ref, by objects that were checked and by what was last seen of the remote."""
    target = shown(update.target)
    seen = (await local.ask("rev-parse", "--verify", "-q", update.target, fails=True)).strip()
    if update.tip is None:
        return f"DELETES {target}" + (f" ({seen[:8]} when last seen)" if is_id(seen) else "")
    counted = ("rev-list", "--count", update.tip, "--not", "--branches", "--tags")
    count = (await local.ask(*counted, fails=True)).strip() or "no"
    # What is not a name may hold anything, even `HEAD^{/x → refs/heads/docs, 1 commit}`: its commit is shown instead.
    name = update.source if is_name(update.source) else update.tip[:12]
    source = shown(name.removeprefix("refs/heads/").removeprefix("refs/tags/"))
    commits = f"{count} commit{'' if count == '1' else 's'}"
    return f"{source} → {target}, {commits}, {await _movement(local, update, seen)}, to {update.tip[:12]}"


async def _movement(local: Outside, update: Update, seen: str) -> str:
    mark = "FORCED, " if update.forced else "FORCED with a lease, " if update.expected else ""
    if not is_id(seen):
        return f"{mark}new here (not seen at the remote before)"
    if seen == update.tip:
        return f"{mark}as last seen"
    merged = await local.ask("merge-base", seen, update.tip or "", fails=True)
    if merged.strip() == seen:
        return f"{mark}fast-forward of what was last seen ({seen[:12]})"
    return f"{mark}NOT a fast-forward of what was last seen ({seen[:12]})"


async def _push(  # noqa: PLR0913  the operation, and everything prepared for it
    operation: Operation,
    context: GitContext,
    at: Remote,
    updates: tuple[Update, ...],
    telling: Telling,
    *,
    tracking: str | None,
) -> int:
    said = bytearray()

    async def hear(stream: str, data: bytes) -> None:
        if stream == "stderr":
            await telling(stream, data)
        elif len(said) < 1 << 20:
            said.extend(data)

    options = [
        *(["--dry-run"] if operation.dry_run else []),
        *(["--atomic"] if operation.atomic else []),
        *(f"--force-with-lease={one.target}:{one.expected}" for one in updates if one.expected is not None),
    ]
    async with store.held(
        context.state, store.name(context.root, at.url), context.clock, largest=context.bounds.disk
    ) as own:
        async with outside.as_operator(context.git, own, context.clock, context.env, path=at.path, bounds=None) as git:
            words = [one.word for one in updates]
            reply = await git.run("push", "--no-verify", "--porcelain", *options, "--", at.url, *words, sink=hear)
        done = await _report(updates, said.decode("utf-8", "replace"), at, telling)
        if not operation.dry_run and done:
            async with outside.local(context.git, own, context.clock, context.bounds) as local:
                await local.ask("update-ref", "--stdin", text=_commands(done, "").encode(), fails=True)
    if not operation.dry_run and done and tracking is not None:
        await _track(operation, context.inside, done, tracking, telling)
    return 1 if reply.exit_code is None else reply.exit_code


async def _report(updates: tuple[Update, ...], said: str, at: Remote, telling: Telling) -> list[Update]:
    """Report the result of each ref as git does, by the sandbox's names; return the refs that the remote has now."""
    by_target, done = {update.target: update for update in updates}, []
    shown = [match for line in said.splitlines() if (match := _PORCELAIN.fullmatch(line))]
    if shown:
        await telling.say(f"To {at.url}")
    for match in shown:
        flag, _, target, summary = match.groups()
        update = by_target.get(target)
        if update is None:
            continue
        source = update.source.removeprefix("refs/heads/").removeprefix("refs/tags/")
        name = target.removeprefix("refs/heads/").removeprefix("refs/tags/")
        await telling.say(f" {flag} {summary:<17} {f'{source} -> {name}' if source else name}")
        if flag != "!":
            done.append(update)
    return done


async def _track(operation: Operation, inside: Inside, done: list[Update], name: str, telling: Telling) -> None:
    """Update inside what a push updates: the remote-tracking branches, and what a branch follows."""
    commands = _commands(done, f"refs/remotes/{name}/")
    if commands:
        await inside.ask("update-ref", "--stdin", text=commands, fails=True)
    if not operation.upstream:
        return
    for update in done:
        branch = update.source.removeprefix("refs/heads/")
        if update.tip is None or branch == update.source or not update.target.startswith("refs/heads/"):
            continue
        await inside.ask("config", f"branch.{branch}.remote", name)
        await inside.ask("config", f"branch.{branch}.merge", update.target)
        followed = update.target.removeprefix("refs/heads/")
        await telling.say(f"branch '{branch}' set up to track '{name}/{followed}'.")


def _commands(done: list[Update], into: str) -> str:
    """Return the commands for `update-ref --stdin`, for the refs themselves or for branches below another prefix."""
    lines = []
    for update in done:
        target = update.target
        if into:
            if not target.startswith("refs/heads/"):
                continue
            target = f"{into}{target.removeprefix('refs/heads/')}"
        lines.append(f"delete {target}\n" if update.tip is None else f"update {target} {update.tip}\n")
    return "".join(lines)
