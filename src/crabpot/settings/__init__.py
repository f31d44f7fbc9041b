"""The merged configuration as frozen data, with every default in one place.

A field's name is the configuration's key in snake case. `crabpot.config` reads text into these classes; nothing here
knows about files.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  the reader of text resolves the annotations at run time
from dataclasses import dataclass, field, replace
from typing import Literal

KIB, MIB, GIB = 1024, 1024**2, 1024**3
_LONGEST_SIZE = 32

Mode = Literal["off", "non-main", "all"]
Scope = Literal["session", "agent", "shared"]
Confine = Literal["guarded", "host"]
WorkspaceAccess = Literal["none", "ro", "rw", "review"]
WorkspaceAt = Literal["/workspace", "same"]
Backend = Literal["auto", "bubblewrap", "docker", "kubernetes", "socket"]
PackageGroup = Literal["minimal", "docs", "media", "dev"]

DEFAULT_WORKSPACE = "~/agent"
TRUSTED_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUNNER_COMMANDS = ("git", "cat", "ls", "mkdir", "cp", "mv", "rm", "diff", "jq")


def camel(name: str) -> str:
    """Return the configuration's key for a field's name."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


class Size(int):
    """A number of bytes, written as `512`, `"100m"` or `"2g"`."""

    UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": 1024 * GIB}  # noqa: RUF012  constant table of a leaf class

    @classmethod
    def parse(cls, value: object) -> Size:
        """Parse a written size, or raise ValueError with what would be right."""
        wrong = ValueError('must be a size such as 512, "100m" or "2g"')
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise wrong
        if isinstance(value, int):
            number, unit = str(value), ""
        else:
            # A longer number is not a size, and could be infinite as a float.
            text = value.strip().lower().removesuffix("b") if len(value) <= _LONGEST_SIZE else ""
            number, unit = (text[:-1], text[-1]) if text[-1:] in cls.UNITS and text[-1:] else (text, "")
        whole, _, fraction = number.partition(".")
        if not (number.isascii() and whole.isdigit() and (fraction.isdigit() or "." not in number)):
            raise wrong
        size = int(float(number) * cls.UNITS[unit]) if fraction else int(whole) * cls.UNITS[unit]
        if not 0 < size < 2**63:
            raise ValueError("must be a size above zero")
        return cls(size)

    def written(self) -> str:
        """Return the shortest text that `parse` reads as exactly this size."""
        unit = next(unit for unit in reversed(self.UNITS) if self % self.UNITS[unit] == 0)
        return f"{self // self.UNITS[unit]}{unit}"


class Duration(float):
    """A number of seconds, written as `90`, `"30s"`, `"10m"` or `"1h"`; 0 is none."""

    UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}  # noqa: RUF012  as above

    @classmethod
    def parse(cls, value: object) -> Duration:
        """Parse a written duration, or raise ValueError with what would be right."""
        text = str(value).strip().lower() if isinstance(value, int | float | str) else ""
        number, unit = (text[:-1], text[-1]) if text[-1:].isalpha() else (text, "")
        whole, _, fraction = number.partition(".")
        digits = whole.isdigit() and (fraction.isdigit() or "." not in number) and number.isascii()
        if isinstance(value, bool) or not digits or unit not in cls.UNITS or len(text) > _LONGEST_SIZE:
            raise ValueError('must be a duration such as 90, "30s", "10m" or "1h"; 0 is none')
        return cls(float(number) * cls.UNITS[unit])

    def written(self) -> str:
        """Return the shortest text that `parse` reads as exactly this duration."""
        unit = next(unit for unit in reversed(self.UNITS) if self % self.UNITS[unit] == 0) if self else ""
        return f"{self / self.UNITS[unit]:g}{unit}"


_LINGER = Duration(600)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTools:
    """The second allow/deny filter, for sandboxed sessions only."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern of `elevated` with options: how its commands are confined on the host."""

    pattern: str
    confine: Confine | None = None
    """None means as `elevated.confine` says."""
    writes: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Elevated:
    """WHEN: which commands may run on the host, and who must agree."""

    enabled: bool = False
    patterns: tuple[str | Pattern, ...] = ()
    confine: Confine = "guarded"
    require_approval: bool = True
    approval_timeout: float = 300.0
    allow_from: tuple[str, ...] | None = None
    path: str | None = None
    pass_env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """WHICH: profile, then allow, minus deny."""

    profile: str | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    sandbox: SandboxTools = SandboxTools()
    elevated: Elevated = Elevated()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSecret:
    """A key that an MCP server reads from `env`: inside it finds a dummy, and the gateway adds the real one outside."""

    env: str
    host: str
    header: str = "Authorization"
    format: str = "Bearer {}"
    tls: Literal["upgrade", "terminate"] = "terminate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTools:
    """Which of a server's tools are offered at all, by the server's own names."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """An MCP server: started by a command in a sandbox of its own, or reached at a URL."""

    command: tuple[str, ...] | None = None
    url: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str | ServerSecret, ...] = ()
    sandbox: Sandbox = Sandbox()
    tools: ServerTools = ServerTools()
    resources: bool = False
    prompts: bool = False
    sampling: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mcp:
    """The MCP servers whose tools agents may use, by name."""

    servers: Mapping[str, McpServer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The commands that a runner on a socket of its own may run."""

    commands: tuple[str, ...] = RUNNER_COMMANDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """How long a gateway lingers after its last call, and its limits, for all agents together and for each."""

    linger: Duration = _LINGER
    max_sandboxes: int = 500
    max_sandboxes_per_agent: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """When older records of the audit log move from the database to a volume, and how long both are kept."""

    rotate: int = 100_000
    keep_days: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """One agent's settings, with the defaults and the global layer merged in.

    `sources` maps each merged path, such as `tools.deny[1]`, to the path in the file where it was written.
    """

    id: str
    workspace: str = DEFAULT_WORKSPACE
    sandbox: Sandbox = Sandbox()
    tools: Tools = Tools()
    sources: Mapping[str, str] = field(default_factory=dict)

    def source(self, path: str) -> str:
        """Return where a merged value was written, or `default`."""
        return self.sources.get(path, "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All agents' settings. An agent without an entry uses the defaults."""

    defaults: AgentSettings = AgentSettings(id="main")
    entries: Mapping[str, AgentSettings] = field(default_factory=dict)
    gateway: Gateway = Gateway()
    runner: Runner = Runner()
    audit: Audit = Audit()
    mcp: Mcp = Mcp()
    # Where each value below `mcp.servers` was written, by a path such as `fs.sandbox.scope`.
    mcp_sources: Mapping[str, str] = field(default_factory=dict)
    default_agent: str = "main"
    file: str | None = None

    def agent(self, agent_id: str) -> AgentSettings:
        """Return the settings of one agent."""
        found = self.entries.get(agent_id)
        return replace(self.defaults, id=agent_id) if found is None else found
