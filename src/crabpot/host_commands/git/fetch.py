"""Fetch, pull and clone: the host's git asks the remote, and the sandbox's git fetches from the gateway."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused
from crabpot.host_commands.git import outside, store
from crabpot.host_commands.git.carrying import connect
from crabpot.host_commands.git.names import fetched, is_name, is_ref, shown
from crabpot.host_commands.git.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.host_commands.git.inside import Repository
    from crabpot.host_commands.git.operation import Operation
    from crabpot.host_commands.git.outside import Outside
    from crabpot.host_commands.git.prepared import GitContext, Telling
    from crabpot.host_commands.git.remotes import Remote
    from crabpot.host_commands.git.store import Store

_SERVE = ("upload-pack",)
_TAGS = "refs/tags/*"
_MOST_TAGS, _TAGS_AT_ONCE = 100_000, 500
_SYMREF = re.compile(r"ref: (refs/heads/[^\t]+)\tHEAD")


def prepare(operation: Operation, context: GitContext, at: Remote, known: Repository | None, name: str) -> Prepared:
    """Prepare what will be asked of the remote, without contacting it yet."""
    sources = _sources(operation, known, name)
    url = _written(operation, at, known, name)

    async def run(telling: Telling) -> int:
        async with store.held(
            context.state, store.name(context.root, at.url), context.clock, largest=context.bounds.disk
        ) as own:
            async with outside.as_operator(
                context.git, own, context.clock, context.env, path=at.path, bounds=context.bounds
            ) as git:
                code = await _fetch(operation, sources, at, git, telling, whole=known is None or not known.shallow)
            await asyncio.to_thread(store.check, own, largest=context.bounds.disk)
            if code != 0:
                return code
            words = _clone_argv(operation, url) if known is None else _fetch_argv(operation, own, name)
            async with outside.local(context.git, own, context.clock, context.bounds) as local:
                code = await connect(context.inside, words, local, _SERVE, tell=telling, url=url)
                if code == 0 and known is not None and not operation.tags:
                    code = await _follow_tags(context, local, name, url, telling)
        if known is not None:
            await context.inside.restore_fetch_head()
        if code == 0 and operation.kind == "pull" and known is not None:
            return await _integrate(operation, context, known, telling)
        return code

    wanted = shown(", ".join(sources))
    after = {"clone": "into a new folder inside", "pull": "then merged or rebased inside"}.get(operation.kind)
    return Prepared(
        url=at.url,
        lines=(f"{operation.kind} from {shown(at.url)}", f"{wanted}{'' if after is None else f', {after}'}"),
        dangers=at.marks,
        bound=(operation.kind, at.url, *sources),
        _run=run,
        _clock=context.clock,
    )


def _sources(operation: Operation, known: Repository | None, name: str) -> tuple[str, ...]:
    """List what to ask the remote for: names, full refs, or patterns of refs."""
    words = list(operation.names)
    if known is None:
        branch = operation.branch
        if branch is not None and not is_name(branch):
            raise HostRefused("invalid_arguments", f"{branch!r} does not name a branch or tag")
        one = operation.single_branch or operation.depth is not None
        return (branch or "HEAD",) if one else ("refs/heads/*", *((branch,) if branch else ()))
    if words:
        joined = []
        while words:
            word = words.pop(0)
            joined.append(f"refs/tags/{words.pop(0)}" if word == "tag" and words else word)
        found = [fetched(word) for word in joined]
    else:
        configured = known.config.get(f"remote.{name}.fetch", ()) if known.is_named(name) else ()
        found = [fetched(word) for word in configured if not word.startswith("^")] or ["HEAD"]
    return tuple(dict.fromkeys([*found, *([_TAGS] if operation.tags else [])]))


def _written(operation: Operation, at: Remote, known: Repository | None, name: str) -> str:
    """Return the URL as written inside, which git there must fetch from the gateway instead."""
    if known is not None:
        return known.url_of(name, pushes=False)
    # Git clones a path that does not exist, as this one does not inside, only if it is a URL.
    return (operation.remote or "") if at.path is None else f"file://{at.path}"


async def _fetch(  # noqa: PLR0913  what, from where, and who gets the output
    operation: Operation, sources: tuple[str, ...], at: Remote, git: Outside, telling: Telling, *, whole: bool
) -> int:
    """Fetch what was asked for into the gateway's repository."""
    refs, code = await _located(sources, at, git, telling)
    if code != 0:
        return code
    has_some = bool((await git.ask("for-each-ref", "--count=1", "refs/heads", "refs/tags")).strip())
    depth = []
    if operation.depth is not None and (git.store.is_shallow or not has_some):
        depth = [f"--depth={operation.depth}"]
    elif operation.depth is None and git.store.is_shallow and whole:
        depth = ["--unshallow"]
    specs = [f"+{ref}:{ref}" for ref in refs]
    options = ("--prune", "--quiet", "--no-write-fetch-head", "--update-head-ok", *depth)
    reply = await git.run("fetch", *options, "--", at.url, *specs, sink=telling)
    return 1 if reply.exit_code is None else reply.exit_code


async def _located(sources: tuple[str, ...], at: Remote, git: Outside, telling: Telling) -> tuple[list[str], int]:
    """Return the remote's full refs for names, and set the gateway's HEAD to the remote's."""
    plain = [source for source in sources if not source.startswith("refs/")]
    refs = [source for source in sources if source.startswith("refs/")]
    if not plain and _TAGS not in sources and "refs/heads/*" not in sources:
        return refs, 0
    patterns = ["HEAD", *(f"refs/{kind}/{name}" for name in plain for kind in ("heads", "tags"))]
    heard = bytearray()

    async def hear(stream: str, data: bytes) -> None:
        if stream == "stderr":
            await telling(stream, data)
        elif len(heard) < 1 << 20:
            heard.extend(data)

    reply = await git.run("ls-remote", "--symref", "--", at.url, *patterns, sink=hear)
    if reply.exit_code != 0:
        return [], 128 if reply.exit_code is None else reply.exit_code
    lines = heard.decode("utf-8", "replace").splitlines()
    head = next((match[1] for line in lines if (match := _SYMREF.fullmatch(line)) and is_ref(match[1])), None)
    if head is not None:
        await git.ask("symbolic-ref", "HEAD", head)
    there = {line.partition("\t")[2] for line in lines if not line.startswith("ref: ")}
    for name in plain:
        candidates = [head] if name == "HEAD" else [f"refs/heads/{name}", f"refs/tags/{name}"]
        found = [one for one in candidates if one is not None and one in there]
        if not found and not (name == "HEAD" and head is not None):
            await telling.say(f"fatal: couldn't find remote ref {name}")
            return [], 128
        refs.append(found[0] if found else head or "")
    return list(dict.fromkeys(refs)), 0


def _clone_argv(operation: Operation, url: str) -> tuple[str, ...]:
    into = operation.names[0] if operation.names else _humanish(url)
    return (
        *("clone", "--no-local"),
        *([f"--depth={operation.depth}"] if operation.depth is not None else []),
        *(["--single-branch"] if operation.single_branch else []),
        *([f"--branch={operation.branch}"] if operation.branch is not None else []),
        *("--", url, into),
    )


def _humanish(url: str) -> str:
    """Return the folder of a clone as git names it: the last part of the URL, without `.git`."""
    last = re.split(r"[/:]", url.rstrip("/").removesuffix("/.git"))[-1].removesuffix(".git")
    if not last or last in (".", ".."):
        raise HostRefused("invalid_arguments", f"{url} gives a clone no name; name the folder: git clone URL FOLDER")
    return last


def _fetch_argv(operation: Operation, own: Store, name: str) -> tuple[str, ...]:
    return (
        # A submodule has its own remote, which nobody was asked about.
        *("fetch", "--no-recurse-submodules"),
        *(["--prune"] if operation.prune else []),
        # Git would ask for the tags that follow along in a second connection, which the gateway does not offer.
        "--tags" if operation.tags else "--no-tags",
        *([f"--depth={operation.depth}"] if operation.depth is not None else []),
        *(["--update-shallow"] if own.is_shallow else []),
        *("--", name, *operation.names),
    )


async def _follow_tags(context: GitContext, local: Outside, name: str, url: str, telling: Telling) -> int:
    """Fetch the new tags of what the sandbox has now, as git does."""
    format_ = "--format=%(refname) %(objectname) %(*objectname)"
    listed = await local.ask("for-each-ref", format_, "refs/tags")
    have = await context.inside.tags(most=_MOST_TAGS) if listed else {}
    tagged = await asyncio.to_thread(_new_tags, listed, have)
    there = await context.inside.existing(set(tagged.values()))
    new = [tag for tag, target in tagged.items() if target in there]
    for at in range(0, len(new), _TAGS_AT_ONCE):
        specs = (f"{tag}:{tag}" for tag in new[at : at + _TAGS_AT_ONCE])
        words = (
            "fetch",
            "--no-recurse-submodules",
            "--no-tags",
            "--no-write-fetch-head",
            "--update-shallow",
            "--",
            name,
            *specs,
        )
        code = await connect(context.inside, words, local, _SERVE, tell=telling, url=url)
        if code != 0:
            return code
    return 0


def _new_tags(listed: str, have: Mapping[str, str]) -> dict[str, str]:
    """Return what each tag of a list points to, without those that already exist."""
    split = (line.split(" ") for line in listed.splitlines())
    return {tag: peeled or itself for tag, itself, peeled in split if tag not in have and is_ref(tag)}


async def _integrate(operation: Operation, context: GitContext, known: Repository, telling: Telling) -> int:
    """Do what a pull does after its fetch, in the sandbox, where hooks and drivers run as the agent."""
    rebase = operation.rebase
    if rebase is None and not operation.ff_only:
        says = known.first(f"branch.{known.branch}.rebase") or known.first("pull.rebase")
        rebase = None if says is None else says != "false"
    fast = operation.ff_only or (rebase is None and known.first("pull.ff") in (None, "only"))
    words = ("rebase", "FETCH_HEAD") if rebase else ("merge", *(["--ff-only"] if fast else []), "FETCH_HEAD")
    reply = await context.inside.run(*words, sink=telling)
    if reply.exit_code != 0 and fast and not operation.ff_only:
        await telling.say("hint: the branches may have diverged; say how to join them: --rebase or --rebase=false")
    return 1 if reply.exit_code is None else reply.exit_code
