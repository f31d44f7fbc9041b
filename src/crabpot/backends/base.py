"""The protocol that every backend implements, and the terms in which it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from crabpot.frozen import dataclass
from crabpot.runner.core import landlock
from crabpot.spec import hardening, network

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.layers.layer import Mechanism
    from crabpot.spec.spec import SandboxSpec
    from crabpot.wire.channel import Channel

State = Literal["enforced", "degraded", "refused"]
# A clause's name, its state, and how it is held.
Row = tuple[str, State, str]

# Networks that are alike on every backend that makes its own sandboxes.
NETWORKS: dict[str, tuple[State, str]] = {
    "none": ("enforced", "a network namespace of its own, with nothing but lo"),
    "host": ("enforced", "the host's network, as configured: everything that it reaches, loopback included"),
    "internet": (
        "enforced",
        "a network namespace of its own; public addresses, of any name, are reached through the gateway alone",
    ),
    "allow": (
        "enforced",
        "a network namespace of its own; the places listed, and no others, are reached through the gateway alone",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One promise of a spec on this machine. A refused one stops the sandbox from opening."""

    name: str
    state: State
    how: str

    def as_json(self) -> dict[str, str]:
        """Return the JSON form that explain, doctor and the audit log show."""
        return {"name": self.name, "state": self.state, "how": self.how}


class Sandbox(Protocol):
    """A sandbox that a backend opened: the stream to its runner, what to greet it with, and how to end it."""

    @property
    def channel(self) -> Channel:
        """Return the byte stream to the runner."""

    @property
    def hello(self) -> Mapping[str, Any]:
        """Return the runner's first frame: workspace, roots, environment, limits."""

    @property
    def pid(self) -> int | None:
        """Return its first process, as this machine's kernel numbers it; None where another kernel runs it."""

    async def close(self) -> None:
        """End every process of it and leave nothing behind; safe to call twice."""

    async def freeze(self) -> None:
        """Stop all its processes until `thaw`; SandboxLost if that cannot be done in time."""

    async def thaw(self) -> None:
        """Let its processes continue; SandboxLost if they cannot."""

    async def cause_of_death(self) -> tuple[str, str] | None:
        """Return the code and sentence of a limit that struck since this was last asked, where that can be known."""

    async def bring_back(self) -> None:
        """Have a layer hold what the sandbox wrote, where that is on another machine; SandboxLost if it cannot."""

    async def remount(self) -> bool:
        """Have a folder under review show what the host changed; return whether there is one and it does."""

    def rename(self, name: str) -> None:
        """Show it by the name of its new scope, soon, where people and other gateways see names."""


class Backend(Protocol):
    """A way to make sandboxes on this machine."""

    @property
    def name(self) -> str:
        """Return its name in the configuration."""

    async def probe(self, spec: SandboxSpec) -> tuple[Clause, ...]:
        """Return each clause of the spec, and whether this machine enforces, degrades or refuses it."""

    async def mechanism(self, spec: SandboxSpec) -> Mechanism:
        """Return how it puts a folder under review: below an overlay, or as a copy."""

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """Make the sandbox and start its runner, or raise SandboxUnavailable; cancelled, leave nothing behind."""

    async def close(self) -> None:
        """End what is kept between openings; every sandbox has been closed."""


def second_wall(version: int) -> tuple[str, State, str]:
    """Return the clause for what Landlock adds to the mounts, by the version that the kernel under a sandbox has."""
    if version < landlock.OLDEST:
        return "landlock", "degraded", "this kernel has none: only mounts keep files from being written"
    if version < landlock.WITH_SCOPES:
        return "landlock", "enforced", f"version {version}: a second wall around files"
    return "landlock", "enforced", f"version {version}: a second wall around files, abstract sockets and signals"


def _environment(chosen: network.NetworkSpec) -> dict[str, str]:
    proxied = network.proxy_environment(chosen) if chosen.proxied else {}
    return {**proxied, **network.certificate_environment(chosen)}


def tmp(spec: SandboxSpec) -> Row:
    """Return the clause for the temporary folders of a backend that makes them as the spec says."""
    if spec.tmp_exec:
        return (
            "tmp",
            "degraded",
            "private, nosuid, nodev, sized, but programs in it can be run, as configured (tmpExec)",
        )
    return "tmp", "enforced", "private, noexec, nosuid, nodev, sized"


def greeting(spec: SandboxSpec) -> dict[str, Any]:
    """Return the first frame for a confined runner: what its sandbox is."""
    home = [] if spec.home is None else [spec.home_at]
    extra = [*home, *(mount.target for mount in spec.mounts)]
    writable = [*home, *(mount.target for mount in spec.mounts if mount.access == "rw")]
    shown = [hardening.AGENT_WORKSPACE] if spec.agent_workspace else []
    env = {**_environment(spec.network), **spec.env}
    # Last, so that it hides no program of the system or of the configuration.
    env["PATH"] = f"{env.get('PATH', hardening.PATH)}:{hardening.FALLBACKS}"
    return {
        "op": "hello",
        "workspace": spec.workspace_at,
        "roots": [spec.workspace_at, *shown, *extra],
        "env": env,
        "writable": [spec.workspace_at, *hardening.WRITABLE, *writable],
        "shell": ["/bin/sh"],
        "limits": {
            "output": spec.limits.output,
            "open_files": spec.limits.open_files,
            "file_size": spec.limits.file_size,
            "processes": spec.limits.pids,
        },
        "contained": True,
        "shims": list(spec.host_commands),
        "proxy": network.PROXY_PORT if spec.network.proxied else None,
    }
