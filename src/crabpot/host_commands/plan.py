"""What runs on the host once a person agrees: argv, program, folder, guard and environment.

`Host.prepare` makes the plan that a request shows. `check` looks again just before the start, and refuses any change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.approvals.identity import identify
from crabpot.errors import HostRefused
from crabpot.host_commands import folders, programs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.approvals.identity import Identity
    from crabpot.host_commands.folders import Folder
    from crabpot.host_commands.git.prepared import Prepared
    from crabpot.host_commands.guard.start import Bwrap
    from crabpot.host_commands.guard.view import View
    from crabpot.host_commands.loopback import Hop


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The confinement of one command: its view of the host, and the bwrap that creates it."""

    view: View
    bwrap: Bwrap


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One command on the host, as it is shown and as it will run. It holds its folder open: close it."""

    argv: tuple[str, ...]
    binary: Identity
    folder: Folder
    env: Mapping[str, str] = field(repr=False)
    executes: tuple[str, ...] = ()
    """What the program would run or obey from the agent's folder."""
    dangers: tuple[str, ...] = ()
    """What agreeing hands over beyond what the command seems to."""
    guard: Guard | None = None
    """Its confinement; None if the pattern says `confine: "host"`, another user runs it, or git is relayed."""
    relay: Prepared | None = field(default=None, repr=False)
    """The relayed git operation, if git needs a network or credentials."""
    grants: str = ""
    """Where to write what else its pattern grants."""
    hop: Hop | None = None
    """How to reach the other user, if one is configured; else it runs as the gateway's user."""
    obeyed: tuple[str, ...] = field(default=(), repr=False)
    """The entries of `executes` that are checked again before the start."""

    @property
    def started(self) -> tuple[tuple[str, ...], Identity, Mapping[str, str]]:
        """What the gateway itself starts, the command or ssh: its argv, program and environment."""
        if self.hop is None:
            return self.argv, self.binary, self.env
        script = self.hop.start(self.argv, self.binary, self.folder, self.env)
        return self.hop.argv(script), self.hop.ssh, {"PATH": self.env["PATH"]}

    @property
    def confined(self) -> str:
        """Return how it is confined, in one word: `guarded`, `git`, `host`, or `user` if another user runs it."""
        if self.relay is not None:
            return "git"
        return "user" if self.hop is not None else "host" if self.guard is None else "guarded"

    def close(self) -> None:
        """Close the folder; call it once."""
        self.folder.close()


async def check(plan: Plan) -> None:
    """Refuse a plan whose program, folder or obeyed files are no longer what was shown."""
    if identify(plan.binary.path) != plan.binary:
        raise HostRefused("conflict", f"{plan.binary.path} was replaced after it was shown; ask again")
    if plan.hop is not None and identify(plan.hop.ssh.path) != plan.hop.ssh:
        raise HostRefused("conflict", f"{plan.hop.ssh.path} was replaced after it was shown; ask again")
    folders.check(plan.folder)
    if plan.relay is None and programs.executes(plan.argv, plan.folder.fd) != plan.obeyed:
        raise HostRefused("conflict", f"what {plan.argv[0]} would run from {plan.folder.path} has changed; ask again")
