"""The settings of one agent's sandboxes: their limits, network, folders, and what only one backend knows."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  the reader of text resolves the annotations at run time
from dataclasses import field
from typing import Literal

from crabpot.frozen import dataclass
from crabpot.settings.units import GIB, MIB, Size

Mode = Literal["off", "non-main", "all"]
Scope = Literal["session", "agent", "shared"]
WorkspaceAccess = Literal["none", "ro", "rw", "review"]
WorkspaceAt = Literal["/workspace", "same"]
Backend = Literal["auto", "bubblewrap", "docker", "kubernetes", "socket"]
PackageGroup = Literal["minimal", "docs", "media", "dev"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Io:
    """Bytes per second to and from disks; None means no limit."""

    read: Size | None = None
    write: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one sandbox may use. Swap equals memory, always."""

    memory: Size = Size(2 * GIB)
    cpus: float = 2.0
    pids: int = 100
    time_limit: float = 60.0
    time_ceiling: float = 3600.0
    output: Size = Size(MIB)
    tmp: Size = Size(100 * MIB)
    open_files: int = 1024
    file_size: Size = Size(GIB)
    disk: Size = Size(10 * GIB)
    memory_reservation: Size | None = None
    cpu_shares: int | None = None
    io: Io = Io()


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """What `crabpot image build` installs in the image; `minimal` is always included."""

    groups: tuple[PackageGroup, ...] = ("minimal", "docs", "media", "dev")
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Docker:
    """Settings of the docker backend only."""

    image: str = "crabpot-sandbox:latest"
    runtime: str | None = None
    seccomp: str = "default"
    apparmor: str | None = None
    setup: str | None = None
    packages: Packages = Packages()


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A volume claim for each scope's private folder, in place of one that ends with its pod."""

    size: Size
    class_: str | None = None
    """The cluster's storage class; None means its default one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A taint of nodes that pods may run on all the same, as the cluster spells it."""

    key: str | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """Settings of the kubernetes backend only."""

    context: str | None = None
    """Of the kubeconfig; None means its current one, or the credentials of the pod that the gateway runs in."""
    namespace: str = "crabpot"
    image: str = "crabpot-sandbox:latest"
    runtime_class: str | None = None
    storage: Storage | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    image_pull_secret: str | None = None
    host_users: bool | None = None
    """False gives each pod a user namespace of its own; None leaves it to the cluster."""
    inet: Literal["policy", "refuse"] = "policy"
    """What keeps the network away: a NetworkPolicy that was seen to hold, or no internet sockets at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFrom:
    """Where the gateway finds a secret; the sandbox never sees it."""

    env: str | None = None
    file: str | None = None
    keyring: str | None = None

    @property
    def shown(self) -> str:
        """Return where the secret is, never the secret."""
        kind = "env" if self.env is not None else "file" if self.file is not None else "keyring"
        return f"{kind} {self.env or self.file or self.keyring}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inject:
    """A header that the gateway adds to requests to one host, the value written as `format` says.

    `tls`: None, to plain HTTP requests. `upgrade`: plain HTTP inside, TLS outside. `terminate`: TLS inside ends at the
    gateway, under an authority that only this sandbox trusts, and begins there anew.
    """

    host: str
    header: str
    value_from: ValueFrom
    tls: Literal["upgrade", "terminate"] | None = None
    format: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Which network a sandbox has: a name, or `allow` with the listed destinations."""

    name: str = "none"
    allow: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    ask: bool = False
    inject: tuple[Inject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """When a sandbox and its private folder are removed."""

    idle_hours: float = 24.0
    max_age_days: float = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """WHERE: one agent's sandbox settings."""

    mode: Mode = "all"
    scope: Scope = "session"
    workspace: WorkspaceAccess = "none"
    workspace_at: WorkspaceAt = "/workspace"
    home: str | None = None
    backend: Backend = "auto"
    network: Network = Network()
    binds: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    tmp_exec: bool = False
    ports: tuple[int, ...] = ()
    limits: Limits = Limits()
    docker: Docker = Docker()
    kubernetes: Kubernetes = Kubernetes()
    socket: str | None = None
    host_commands: tuple[str, ...] = ()
    host_user: str | None = None
    ssh_key: str | None = None
    warm: int = 0
    prune: Prune = Prune()
