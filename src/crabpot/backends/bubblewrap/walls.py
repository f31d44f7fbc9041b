"""What every opening shares, and the walls that it puts up."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from crabpot.backends.bubblewrap import render
from crabpot.backends.linux import procs
from crabpot.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crabpot.backends.bubblewrap.bundle import Bundle
    from crabpot.backends.bubblewrap.layout import Layout
    from crabpot.backends.bubblewrap.leftovers import Mark
    from crabpot.backends.linux.cgroup_hierarchy import Hierarchy
    from crabpot.spec.spec import SandboxSpec, User

# What the host's kernel must say of the runner before it is greeted: read from outside, where nothing inside can
# lie.
_CONFINED = {
    **{f"Cap{which}": "0000000000000000" for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")},
    "NoNewPrivs": "1",
    "Seccomp": "2",
}
_NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """How an opening is rendered, and what must be true of it.

    There is one instance, and nothing in the program makes another: only the tests do, to see each wall missed.
    """

    arguments: Callable[[SandboxSpec, render.LaunchPlan], list[str]] = render.arguments
    confined: Mapping[str, str] = field(default_factory=lambda: _CONFINED)
    namespaces: tuple[str, ...] = _NAMESPACES

    def missed(self, status: str, user: User, *, dropped: bool) -> list[str]:
        """Return what /proc/PID/status says otherwise than it must; `dropped` where root became `user` for it."""
        said = procs.fields(status)
        wrong = [name for name, value in self.confined.items() if said.get(name) != value]
        ids = {"Uid": [user.uid] * 4, **({"Gid": [user.gid] * 4, "Groups": []} if dropped else {})}
        return wrong + [name for name, numbers in ids.items() if said.get(name, "?").split() != list(map(str, numbers))]

    def shared(self, seen: Mapping[str, str], others: Sequence[Mapping[str, str]], network: str) -> list[str]:
        """Return the namespaces that a process must have for itself, and shares or keeps out of sight."""
        wanted = [name for name in self.namespaces if (name, network) != ("net", "host")]
        own = [name for name in wanted if seen[name].startswith(f"{name}:[")]
        return [
            f"{name} namespace" for name in wanted if name not in own or seen[name] in [one[name] for one in others]
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningContext:
    """What an opening depends on, the same for all of them."""

    mark: Mark
    bundle: Bundle
    layout: Layout
    hierarchy: Hierarchy | None
    walls: Walls = field(default_factory=Walls)
