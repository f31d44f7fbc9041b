"""ls-remote: the host's git lists the refs of the remote, and the sandbox gets its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.errors import HostRefused
from crabpot.host_commands.git import outside, store
from crabpot.host_commands.git.names import shown
from crabpot.host_commands.git.prepared import Prepared

if TYPE_CHECKING:
    from crabpot.host_commands.git.operation import Operation
    from crabpot.host_commands.git.prepared import GitContext, Telling
    from crabpot.host_commands.git.remotes import Remote


def prepare(operation: Operation, context: GitContext, at: Remote) -> Prepared:
    """Prepare ls-remote, whose result is its output."""
    if any(not pattern or not pattern.isprintable() for pattern in operation.names):
        raise HostRefused("invalid_arguments", "a pattern is empty or has unprintable characters")
    wanted = {"--heads": operation.heads, "--tags": operation.tags, "--refs": operation.refs_only}
    options = [option for option, given in wanted.items() if given]

    async def run(telling: Telling) -> int:
        async with (
            store.held(
                context.state, store.name(context.root, at.url), context.clock, largest=context.bounds.disk
            ) as own,
            outside.as_operator(
                context.git, own, context.clock, context.env, path=at.path, bounds=context.bounds
            ) as git,
        ):
            reply = await git.run("ls-remote", *options, "--", at.url, *operation.names, sink=telling)
        return 1 if reply.exit_code is None else reply.exit_code

    return Prepared(
        url=at.url,
        lines=(f"ls-remote of {shown(at.url)}",),
        dangers=at.marks,
        bound=("ls-remote", at.url, *options, *operation.names),
        _run=run,
        _clock=context.clock,
    )
