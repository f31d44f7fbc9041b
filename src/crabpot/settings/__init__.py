"""The merged configuration as frozen data, with every default in one place.

May import: `frozen`. A field's name is the configuration's key in snake case, which `crabpot.config` reads.
Must never enter: files, processes, decisions.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  the reader of text resolves the annotations at run time
from dataclasses import field, replace
from typing import Literal

from crabpot.frozen import dataclass
from crabpot.settings.sandbox import (
    Backend,
    Docker,
    Inject,
    Io,
    Kubernetes,
    Limits,
    Mode,
    Network,
    PackageGroup,
    Packages,
    Prune,
    Sandbox,
    Scope,
    Storage,
    Toleration,
    ValueFrom,
    WorkspaceAccess,
    WorkspaceAt,
)
from crabpot.settings.units import GIB, KIB, MIB, Duration, Size, camel

__all__ = [
    "DEFAULT_WORKSPACE",
    "GIB",
    "KIB",
    "MIB",
    "RUNNER_COMMANDS",
    "TRUSTED_PATH",
    "AgentSettings",
    "Audit",
    "Backend",
    "Confine",
    "Docker",
    "Duration",
    "Elevated",
    "Gateway",
    "Inject",
    "Io",
    "Kubernetes",
    "Limits",
    "Mcp",
    "McpServer",
    "Mode",
    "Network",
    "PackageGroup",
    "Packages",
    "Pattern",
    "Prune",
    "Runner",
    "Sandbox",
    "SandboxTools",
    "Scope",
    "ServerSecret",
    "ServerTools",
    "Settings",
    "Size",
    "Storage",
    "Toleration",
    "Tools",
    "ValueFrom",
    "WorkspaceAccess",
    "WorkspaceAt",
    "camel",
]

Confine = Literal["guarded", "host"]

DEFAULT_WORKSPACE = "~/agent"
TRUSTED_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUNNER_COMMANDS = ("git", "cat", "ls", "mkdir", "cp", "mv", "rm", "diff", "jq")
_LINGER = Duration(600)


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
