"""Work out what a push changes at the remote: every name is resolved by the sandbox's own git."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crabpot.errors import HostRefused
from crabpot.host_commands.git.names import is_name, pushed, refspec

if TYPE_CHECKING:
    from crabpot.host_commands.git.inside import Inside, Repository
    from crabpot.host_commands.git.operation import Operation

_MOST_TAGS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One ref of the remote and its new value; a tip of None deletes it."""

    source: str
    tip: str | None
    target: str
    forced: bool
    expected: str | None = None
    """What the remote must have there, for --force-with-lease."""

    @property
    def word(self) -> str:
        """The refspec for the host's git."""
        return f"{'+' if self.forced else ''}{self.tip or ''}:{self.target}"

    @property
    def overwrites(self) -> bool:
        """Whether what the remote has there may be lost; a lease only requires it to be what was seen."""
        return self.tip is not None and (self.forced or self.expected is not None)


async def resolve(operation: Operation, inside: Inside, known: Repository, name: str) -> tuple[Update, ...]:
    """Return what a push would change, each ref once; names mean what they mean in the agent's repository."""
    words, found = list(operation.names), []
    if not words and not operation.tags:
        if known.branch is None:
            raise HostRefused(
                "invalid_arguments", "HEAD is on no branch; say what to push: git push REMOTE SOURCE:BRANCH"
            )
        words = [f"refs/heads/{known.branch}"]
    while words:
        word = words.pop(0)
        if word == "tag" and words:
            word = f"refs/tags/{words.pop(0)}"
        found.append(await _update(f":{word}" if operation.delete else word, operation, inside, known, name))
    if operation.tags:
        tags = await inside.tags(most=_MOST_TAGS)
        found += [Update(source=one, tip=tip, target=one, forced=operation.force) for one, tip in tags.items()]
    distinct = {update.target: update for update in found}
    if operation.lease:
        return tuple([await _leased(one, inside, known, name) for one in distinct.values()])
    return tuple(distinct.values())


async def _update(word: str, operation: Operation, inside: Inside, known: Repository, name: str) -> Update:
    spec = refspec(word)
    # With a lease, git forces only what the lease allows, and so do we.
    forced = operation.force or spec.forced
    if not spec.source:
        return Update(source="", tip=None, target=await _deleted(spec.target or "", inside, name), forced=False)
    full, tip = await _resolved(spec.source, inside, known)
    target = spec.target if spec.target is not None else full
    if target is None:
        raise HostRefused("invalid_arguments", f"{spec.source} is not a branch or tag; write {spec.source}:BRANCH")
    if not target.startswith("refs/"):
        target = f"refs/tags/{target}" if full is not None and full.startswith("refs/tags/") else f"refs/heads/{target}"
    return Update(source=full or spec.source, tip=tip, target=pushed(target), forced=forced)


async def _deleted(target: str, inside: Inside, name: str) -> str:
    """Return the full name of the ref to delete: a branch, unless the sandbox knows it only as a tag."""
    if target.startswith("refs/"):
        return pushed(target)
    branches = (f"refs/heads/{target}", f"refs/remotes/{name}/{target}")
    if await inside.resolve(f"refs/tags/{target}") and not any([await inside.resolve(one) for one in branches]):
        return f"refs/tags/{target}"
    return f"refs/heads/{target}"


async def _resolved(source: str, inside: Inside, known: Repository) -> tuple[str | None, str]:
    """Return the full name of a source, if it has one, and its id, both by the sandbox's git."""
    if source in ("HEAD", "@") and known.branch is not None:
        source = f"refs/heads/{known.branch}"
    if is_name(source):
        full = [source] if source.startswith("refs/") else [f"refs/heads/{source}", f"refs/tags/{source}"]
        found = [(one, tip) for one in full if (tip := await inside.resolve(one)) is not None]
        if len(found) > 1:
            raise HostRefused("invalid_arguments", f"{source} is a branch and a tag; write one of {', '.join(full)}")
        if found:
            return found[0]
    tip = await inside.resolve(source)
    if tip is None:
        raise HostRefused("invalid_arguments", f"error: src refspec {source} does not match any")
    return None, tip


async def _leased(update: Update, inside: Inside, known: Repository, name: str) -> Update:
    seen = None
    if known.is_named(name) and update.target.startswith("refs/heads/"):
        seen = await inside.resolve(f"refs/remotes/{name}/{update.target.removeprefix('refs/heads/')}")
    if seen is None:
        raise HostRefused(
            "invalid_arguments", f"--force-with-lease: {update.target} has not been seen yet; fetch it first"
        )
    return replace(update, expected=seen, forced=False)
