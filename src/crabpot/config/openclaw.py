"""Translate an openclaw.json into a configuration of ours, and say what was left out and why.

Nothing is guessed: a key without a meaning here is left out by name. No wall is lowered: what OpenClaw can turn off and
Crabpot cannot is left out too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.decide import tools as known

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALWAYS = "every sandbox of Crabpot has it, and no setting changes that"
_HIDDEN = (
    "no sandbox is shown a hidden folder of the home, where keys lie; move it, for instance to ~/agent, and set that"
)
_NOT_OURS = "it is not about sandboxes, tools or approvals"
# Keys that move to one of ours as they are.
_SANDBOX = {"mode": "mode", "scope": "scope", "workspaceAccess": "workspace", "prune": "prune"}
_DOCKER = {
    "image": "docker.image",
    "setupCommand": "docker.setup",
    "seccompProfile": "docker.seccomp",
    "apparmorProfile": "docker.apparmor",
    "network": "network",
    "user": "user",
    "binds": "binds",
    "env": "env",
    "memory": "limits.memory",
    "cpus": "limits.cpus",
    "pidsLimit": "limits.pids",
}
_ULIMITS = {"nofile": "limits.openFiles", "fsize": "limits.fileSize"}
_LEFT_OUT = {
    "workspaceRoot": "private workspaces are kept in Crabpot's state folder",
    "browser": "the browser is the embedding program's; Crabpot sandboxes tool calls",
    "memorySwap": "swap equals memory, always",
    "readOnlyRoot": _ALWAYS,
    "capDrop": _ALWAYS,
    "tmpfs": "the temporary folders are private, and limits.tmp is their size",
    "workdir": "the workspace is at /workspace; see workspaceAt",
    "dns": "names are resolved by the gateway, never inside",
    "extraHosts": "names are resolved by the gateway; list what may be reached in network.allow",
    "containerPrefix": "sandboxes are called crabpot-…",
    "ssh": "Crabpot has no backend that runs a sandbox over ssh",
}
_TOP_LEVEL = {"mcp": "see `crabpot import mcp FILE`"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A key that was not translated, and why."""

    path: str
    because: str


@dataclass(slots=True)
class Imported:
    """A configuration of ours, as it grows, and what did not get into it."""

    config: dict[str, Any] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def put(self, path: str, value: Any) -> None:
        """Set a value by its dotted path."""
        at = self.config
        *folders, name = path.split(".")
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = value

    def skip(self, path: str, because: str) -> None:
        """Note what is left out."""
        self.left_out.append(LeftOut(path=path, because=because))


def translate(document: Mapping[str, Any]) -> Imported:
    """Return the configuration that means what an openclaw.json says, as far as Crabpot has a word for it."""
    made = Imported()
    for key, value in document.items():
        if value is None:
            continue
        if key == "agents" and isinstance(value, dict):
            _agents(made, value)
        elif key == "tools" and isinstance(value, dict):
            _tools(made, value, "tools", "tools")
        else:
            made.skip(key, _TOP_LEVEL.get(key, _NOT_OURS))
    return made


def _agents(made: Imported, agents: Mapping[str, Any]) -> None:
    for key, value in agents.items():
        if key == "defaults" and isinstance(value, dict):
            _agent(made, value, "agents.defaults", "agents.defaults")
        elif key == "list" and isinstance(value, list):
            for index, one in enumerate(value):
                _listed(made, one, f"agents.list[{index}]")
        elif value is not None:
            made.skip(f"agents.{key}", _NOT_OURS)


def _listed(made: Imported, one: Any, path: str) -> None:
    name = one.get("id") if isinstance(one, dict) else None
    if not isinstance(name, str) or not name or "." in name:
        made.skip(path, "an agent needs an id")
        return
    made.put(f"agents.entries.{name}", {})
    if one.get("default") and name != "main":
        made.skip(f"{path}.default", 'the default agent is always "main"; name the other one in the session key')
    rest = {key: value for key, value in one.items() if key not in ("id", "default")}
    _agent(made, rest, path, f"agents.entries.{name}")


def _agent(made: Imported, agent: Mapping[str, Any], path: str, ours: str) -> None:
    for key, value in agent.items():
        if key == "workspace" and str(value).startswith("~/."):
            made.skip(f"{path}.workspace", _HIDDEN)
        elif key == "workspace":
            made.put(f"{ours}.workspace", value)
        elif key == "sandbox" and isinstance(value, dict):
            _sandbox(made, value, f"{path}.sandbox", f"{ours}.sandbox")
        elif key == "tools" and isinstance(value, dict) and ours != "agents.defaults":
            _tools(made, value, f"{path}.tools", f"{ours}.tools")
        elif value is not None:
            made.skip(f"{path}.{key}", _NOT_OURS)


def _sandbox(made: Imported, sandbox: Mapping[str, Any], path: str, ours: str) -> None:
    for key, value in sandbox.items():
        if value is None:
            continue
        if key == "docker" and isinstance(value, dict):
            _docker(made, value, f"{path}.docker", ours)
        elif key == "backend":
            _backend(made, value, f"{path}.backend", ours)
        elif key in _SANDBOX:
            made.put(f"{ours}.{_SANDBOX[key]}", value)
        else:
            made.skip(f"{path}.{key}", _LEFT_OUT.get(key, "Crabpot has no such setting"))


def _backend(made: Imported, value: Any, path: str, ours: str) -> None:
    if value == "docker":
        made.put(f"{ours}.backend", "docker")
    elif value != "crabpot":
        made.skip(path, "Crabpot has no backend of this name; it takes bubblewrap, else docker")


def _docker(made: Imported, docker: Mapping[str, Any], path: str, ours: str) -> None:
    for key, value in docker.items():
        if value is None:
            continue
        if key == "ulimits" and isinstance(value, dict):
            _ulimits(made, value, f"{path}.ulimits", ours)
        elif key in _DOCKER:
            made.put(f"{ours}.{_DOCKER[key]}", value)
        else:
            made.skip(f"{path}.{key}", _LEFT_OUT.get(key, "Crabpot has no such setting"))


def _ulimits(made: Imported, ulimits: Mapping[str, Any], path: str, ours: str) -> None:
    for key, value in ulimits.items():
        limit = value.get("soft", value.get("hard")) if isinstance(value, dict) else value
        if key in _ULIMITS and isinstance(limit, int):
            made.put(f"{ours}.{_ULIMITS[key]}", limit)
        else:
            because = "limits.pids counts processes" if key == "nproc" else "Crabpot has no such limit"
            made.skip(f"{path}.{key}", because)


def _tools(made: Imported, tools: Mapping[str, Any], path: str, ours: str) -> None:
    allowed: list[str] = []
    for key, value in tools.items():
        if value is None:
            continue
        if key == "profile" and value in known.PROFILES:
            made.put(f"{ours}.profile", value)
        elif key in ("allow", "alsoAllow") and isinstance(value, list):
            allowed += _names(made, value, f"{path}.{key}")
        elif key == "deny" and isinstance(value, list):
            made.put(f"{ours}.deny", _names(made, value, f"{path}.deny"))
        elif key == "sandbox" and isinstance(value, dict):
            _filter(made, value.get("tools") or {}, f"{path}.sandbox.tools", f"{ours}.sandbox")
        elif key == "elevated" and isinstance(value, dict):
            _elevated(made, value, f"{path}.elevated", f"{ours}.elevated")
        else:
            made.skip(f"{path}.{key}", "Crabpot has no such profile" if key == "profile" else _NOT_OURS)
    if allowed:
        made.put(f"{ours}.allow", list(dict.fromkeys(allowed)))


def _filter(made: Imported, tools: Mapping[str, Any], path: str, ours: str) -> None:
    for key in ("allow", "deny"):
        names = _names(made, tools.get(key) or [], f"{path}.{key}")
        if names:
            made.put(f"{ours}.{key}", names)


def _names(made: Imported, names: list[Any], path: str) -> list[str]:
    """Return the names that Crabpot can take. Unknown plain ones become tools of the embedding program."""
    taken = []
    for index, name in enumerate(names):
        if not isinstance(name, str):
            made.skip(f"{path}[{index}]", "a tool's name is text")
        elif name.startswith("group:") and name not in known.GROUPS:
            made.skip(f"{path}[{index}]", f"Crabpot has no group {name}; list its tools by name")
        else:
            taken.append(name)
            if _is_foreign(name):
                extra = made.config.setdefault("tools", {}).setdefault("extra", [])
                extra += [] if name in extra else [name]
    return taken


def _is_foreign(name: str) -> bool:
    plain = name.strip().lower()
    ours = known.ALIASES.get(plain, plain) in known.TOOLS
    return not ours and "*" not in plain and not plain.startswith("group:")


def _elevated(made: Imported, elevated: Mapping[str, Any], path: str, ours: str) -> None:
    for key, value in elevated.items():
        if key in ("enabled", "patterns", "requireApproval", "approvalTimeout"):
            made.put(f"{ours}.{key}", value)
        elif key == "allowFrom" and isinstance(value, dict):
            made.put(f"{ours}.allowFrom", _senders(made, value, f"{path}.allowFrom"))
        elif key == "allowFrom":
            made.put(f"{ours}.allowFrom", value)
        else:
            made.skip(f"{path}.{key}", "Crabpot has no such setting")


def _senders(made: Imported, channels: Mapping[str, Any], path: str) -> list[str]:
    """Return senders as `channel:id`; nobody is let in by a wildcard."""
    found = []
    for channel, senders in channels.items():
        for sender in senders if isinstance(senders, list) else []:
            if sender == "*":
                made.skip(f"{path}.{channel}", "anybody on a channel could ask for the host; name the senders")
            else:
                found.append(f"{channel}:{sender}")
    return found
