"""The description of one sandbox: frozen, and hashed in a canonical form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from crabpot.frozen import dataclass
from crabpot.settings import Kubernetes
from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import Docker, Limits
    from crabpot.spec.network import NetworkSpec

Access = Literal["ro", "rw"]

# What a layer's folder holds: of an overlay, or of a copy.
UPPER, WORK, COPY = "upper", "work", "copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A uid and gid; neither is ever 0."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host folder or file at a path inside. `source` is absolute, with its links resolved."""

    source: str
    target: str
    access: Access


@dataclass(frozen=True, kw_only=True)
class SandboxSpec:
    """All that describes a sandbox, whoever makes it.

    Without slots, to cache its digests, which every opening and every claim needs more than once.

    `user` None means the owner of the workspace, which only the machine that opens the sandbox can tell.
    `workspace` is mounted rw at `workspace_at`; `private` says that Crabpot keeps that folder in its state.
    `home` is a folder of Crabpot's state that is the home inside; None where the workspace is.
    With `layer`, a folder of Crabpot's state, the workspace is under review: only the layer is written.
    """

    scope_key: str
    name: str
    backend: str
    workspace: str
    private: bool
    agent_workspace: str | None
    mounts: tuple[Mount, ...]
    user: User | None
    network: NetworkSpec
    env: Mapping[str, str]
    tmp_exec: bool
    limits: Limits
    docker: Docker
    socket: str | None
    host_commands: tuple[str, ...]
    workspace_at: str = hardening.WORKSPACE
    home: str | None = None
    layer: str | None = None
    kubernetes: Kubernetes = Kubernetes()
    # Whose share of the processor it gets; empty for a sandbox that agents share. No part of what it is known by.
    agent: str = ""
    # Of one sandbox's own authority, made while it opens; no part of what it is known by.
    certificates: tuple[Mount, ...] = ()

    @property
    def writes(self) -> tuple[str, ...]:
        """Return the host folders and files that it can change."""
        return (self.layer or self.workspace, *(mount.source for mount in self.mounts if mount.access == "rw"))

    @property
    def warnings(self) -> list[str]:
        """Return what the configuration opens beyond the defaults, in words, for those who read the log."""
        named = f"the network {self.network.name}"
        joined = {"host": "the host's network", "bridge": "docker's bridge", "named": named}.get(self.network.kind)
        found = [] if joined is None else [f"the sandbox has {joined}"]
        found += [f"traffic to {place} passes unchecked" for place in self.network.raw]
        found += [f"the agent may change {mount.source}" for mount in self.mounts if mount.access == "rw"]
        own = self.docker.seccomp != "default"
        return [*found, "a custom seccomp profile replaces Crabpot's own"] if own else found

    @property
    def kept(self) -> str | None:
        """Return the folder of Crabpot's own that is the workspace, private or a copy; None if it is the host's."""
        return f"{self.layer}/{COPY}" if self.layer else self.workspace if self.private else None

    @property
    def remote(self) -> bool:
        """Return whether its workspace is on another machine."""
        return self.backend == "kubernetes"

    @property
    def home_at(self) -> str:
        """Return where the home is inside."""
        return self.workspace_at if self.home is None else hardening.HOME

    @property
    def targets(self) -> tuple[str, ...]:
        """Return where folders and files of the host are mounted inside."""
        home = () if self.home is None else (hardening.HOME,)
        agent = () if self.agent_workspace is None else (hardening.AGENT_WORKSPACE,)
        return (self.workspace_at, *home, *agent, *(mount.target for mount in self.mounts))

    @cached_property
    def family(self) -> str:
        """Return the digest of everything but its owner: sandboxes that share it are interchangeable."""
        return _digest(_shared(self))

    def related_to(self, other: SandboxSpec) -> SandboxSpec:
        """Return itself, knowing its family if that is another's: to compare takes a tenth of the time of a digest."""
        if _shared(self) == _shared(other):
            self.__dict__["family"] = other.family
        return self

    def owned_by(self, scope_key: str, name: str, workspace: str) -> SandboxSpec:
        """Return the same for another owner, knowing its family. Not with a layer, which is one scope's own."""
        made = object.__new__(SandboxSpec)
        # Not `replace`: it would look at each of the fields, and every first call of a session waits for it.
        made.__dict__.update(self.__dict__, scope_key=scope_key, name=name, workspace=workspace)
        made.__dict__.pop("hash", None)
        return made

    @cached_property
    def hash(self) -> str:
        """Return the digest of everything above. Order matters in lists, not in objects (CVE-2026-27007)."""
        return _digest([self.family, self.scope_key, self.name, self.workspace])


def _shared(spec: SandboxSpec) -> dict[str, object]:
    """Return everything but its owner."""
    workspace = "" if spec.private else spec.workspace
    # Not `replace`: it would take longer than the digest, and every first call of a session waits for it.
    others = {"scope_key": "", "name": "", "workspace": workspace, "agent": "", "certificates": ()}
    return {**_members(spec), **others}


def _digest(value: object) -> str:
    text = _CANONICAL(value)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _members(value: object) -> dict[str, object]:
    """Return what json does not know, the frozen classes, field by field; anything else is a bug."""
    kind: Any = type(value)
    return _reader(kind)(value)


@cache
def _reader(kind: type) -> Callable[[Any], dict[str, object]]:
    """Return what reads all fields of a class at once: every first call of a session waits for some seventy."""
    if issubclass(kind, Mapping):
        return dict
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is not part of a spec")
    names = tuple(kind.__dataclass_fields__)
    # One of them twice: of a single name it would return no tuple.
    read = attrgetter(*names, names[0])
    return lambda value: dict(zip(names, read(value), strict=False))


_CANONICAL = json.JSONEncoder(default=_members, sort_keys=True, separators=(",", ":")).encode
