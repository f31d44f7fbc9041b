"""Throw-away sandboxes: what works on this machine is what was seen to work."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.backends.bubblewrap import candidates, probe
from crabpot.backends.bubblewrap import user as users
from crabpot.backends.bubblewrap.fork_server import ForkServers
from crabpot.backends.bubblewrap.opening import Opening
from crabpot.backends.linux import owner
from crabpot.errors import SandboxUnavailable
from crabpot.settings import Docker, Limits
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import SandboxSpec, User
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from crabpot.backends.bubblewrap.candidates import Candidate, Chosen
    from crabpot.backends.bubblewrap.fork_server import ForkServer
    from crabpot.backends.bubblewrap.overlay import Review
    from crabpot.backends.bubblewrap.render import Program
    from crabpot.backends.bubblewrap.walls import OpeningContext


async def choose(context: OpeningContext, home: str) -> Chosen:
    """Open a sandbox with each bwrap, in each way, and then without it; NoneWorks if none opens."""
    gateway = User(uid=os.geteuid(), gid=os.getegid())
    folder = f"{home}/{owner.label(os.urandom(4).hex())}"
    spec = _throwaway(folder)
    user = users.choose(spec, gateway=gateway, owner=None).user
    if user is None:
        raise probe.NoneWorks({"": "the gateway's group is root, which no sandbox runs as"})

    async def tries(candidate: Candidate, program: Program) -> str | None:
        return await opening(spec, context, candidates.Chosen(candidate=candidate, program=program), user)

    try:
        chosen = await probe.survey(candidates.candidates(), tries, home)
        forks = chosen.program.seals and await _forks(spec, context, chosen, user)
        return replace(chosen, program=replace(chosen.program, forks=forks))
    finally:
        with contextlib.suppress(OSError):
            remove_tree(folder)


async def _forks(spec: SandboxSpec, context: OpeningContext, chosen: Chosen, user: User) -> bool:
    """Return whether a fork server makes a sandbox here, as bwrap does.

    Not with an interpreter of the user's own: a runner's program is open from before the sandbox was made, on a mount
    of the host's that may be written, where bwrap's is on one of the sandbox's that may not.
    """
    if context.bundle.interpreter.prefix is not None:
        return False
    servers = ForkServers(context.bundle, context.mark)
    try:
        server = await servers.get(user, groupless=chosen.program.groupless)
        return await opening(spec, context, chosen, user, server=server) is None
    except (SandboxUnavailable, OSError):
        return False
    finally:
        servers.close()


async def opening(  # noqa: PLR0913  all that an opening depends on
    spec: SandboxSpec,
    context: OpeningContext,
    chosen: Chosen,
    user: User,
    review: Review | None = None,
    *,
    server: ForkServer | None = None,
) -> str | None:
    """Open a sandbox and close it at once; return why that failed, or None."""
    # Without a control group: it lives for a moment, and a failure to make one says nothing about bwrap.
    bare = replace(context, hierarchy=None)
    try:
        sandbox = await Opening(spec, bare, chosen, user, review, server=server).run({})
    except SandboxUnavailable as failure:
        return str(failure)
    await sandbox.close()
    return None


def _throwaway(folder: str) -> SandboxSpec:
    return SandboxSpec(
        scope_key="probe",
        name="probe",
        backend="bubblewrap",
        workspace=folder,
        private=True,
        agent_workspace=None,
        mounts=(),
        user=None,
        network=NetworkSpec(kind="none"),
        env={},
        tmp_exec=False,
        limits=Limits(),
        docker=Docker(),
        socket=None,
        host_commands=(),
    )
