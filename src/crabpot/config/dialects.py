"""Translate other spellings of the same settings into the one that the schema knows.

Values are moved, never copied or changed, so an error still names the line and path where a person wrote them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.config.document import Array, Member, Object, Value, is_null, join, plain
from crabpot.wording import closest

if TYPE_CHECKING:
    from collections.abc import Iterable

# The key of an older spelling below a sandbox → the one key that the schema knows.
_SANDBOX_KEYS = {"workspaceAccess": "workspace"}
_DOCKER_KEYS = {"binds": "binds", "user": "user", "network": "network"}
_TOP_LEVEL_KEYS = {
    "network": "network",
    "host_commands": "hostCommands",
    "ssh_key_path": "sshKey",
    "host_user": "hostUser",
}
_TOP_LEVEL_SANDBOX = ("enabled", "mounts", "docker", *_TOP_LEVEL_KEYS)


class DialectProblem(ValueError):
    """Two spellings that disagree, or one that cannot be translated."""

    def __init__(self, value: Value, message: str) -> None:
        super().__init__(message)
        self.path = value.path
        self.start = value.start


def translate(root: Object) -> Object:
    """Return the tree in the schema's own spelling."""
    root = _servers(root)
    defaults = [member for member in root.members if member.key not in ("sandbox", "workspace")]
    moved = _Layer()
    sandbox, workspace = root.get("sandbox"), root.get("workspace")
    if isinstance(sandbox, Object):
        _from_top_level(sandbox, moved)
    elif sandbox is not None and not is_null(sandbox):
        raise DialectProblem(sandbox, "must be an object")
    agents = root.get("agents")
    if agents is None or is_null(agents):
        agents = Object(path="agents", start=root.start, end=root.start)
    if not isinstance(agents, Object):
        return root
    agents = _agents(agents, moved, workspace)
    kept = [member for member in defaults if member.key != "agents"]
    if agents.members:
        kept.insert(0, Member(key="agents", start=agents.start, value=agents))
    return replace(root, members=tuple(kept))


class _Layer:
    """The members of one sandbox, collected from several spellings; conflicting ones are refused."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}

    def put(self, key: str, value: Value) -> None:
        before = self.members.get(key)
        if before is None or is_null(before.value):
            self.members[key] = Member(key=key, start=value.start, value=value)
        elif not is_null(value) and plain(before.value) != plain(value):
            raise DialectProblem(value, f"disagrees with {before.value.path}, another spelling of the same setting")

    def fill(self, object_: Object) -> Object:
        return replace(object_, members=tuple(self.members.values()))


def _from_top_level(sandbox: Object, layer: _Layer) -> None:
    for member in sandbox.members:
        key, value = member.key, member.value
        if key == "enabled":
            _enabled(value, layer)
        elif key == "mounts":
            layer.put("binds", _mounts(value))
        elif key == "docker":
            _docker(value, layer, only_user=True)
        elif key in _TOP_LEVEL_KEYS:
            layer.put(_TOP_LEVEL_KEYS[key], value)
        else:
            known = ", ".join(_TOP_LEVEL_SANDBOX)
            rest = f"a top-level sandbox takes {known}; the rest belongs under agents.defaults.sandbox"
            raise DialectProblem(value, f"unknown key{closest(key, _TOP_LEVEL_SANDBOX)} ({rest})")


def _enabled(value: Value, layer: _Layer) -> None:
    """Translate `enabled`: `true` is mode all, scope shared, workspace rw; `false` is mode off, and nothing else."""
    if is_null(value):
        return
    if value.scalar is not True and value.scalar is not False:
        raise DialectProblem(value, "must be true or false")
    means = {"mode": "all", "scope": "shared", "workspace": "rw"} if value.scalar else {"mode": "off"}
    for key, text in means.items():
        layer.put(key, replace(value, scalar=text))


def _mounts(value: Value) -> Value:
    if is_null(value):
        return value
    if not isinstance(value, Array):
        raise DialectProblem(value, 'must be a list of {host: "…", container: "…", mode: "ro"}')
    return replace(value, items=tuple(_bind(item) for item in value.items))


def _bind(item: Value) -> Value:
    entry = plain(item)
    if not isinstance(entry, dict) or not set(entry) <= {"host", "container", "mode"}:
        raise DialectProblem(item, "a mount has the keys host, container and mode, and no others")
    parts = [entry.get("host"), entry.get("container"), entry.get("mode", "ro")]
    if not all(isinstance(part, str) and part and ":" not in part for part in parts):
        raise DialectProblem(item, "host and container must be paths without a colon, mode ro or rw")
    return Value(path=item.path, start=item.start, end=item.end, scalar=":".join(map(str, parts)))


def _docker(value: Value, layer: _Layer, *, only_user: bool = False) -> None:
    """Move what older spellings keep under `docker`, except the settings of the docker backend itself."""
    if not isinstance(value, Object):
        layer.put("docker", value)
        return
    keys = {"user": "user"} if only_user else _DOCKER_KEYS
    own = []
    for member in value.members:
        if member.key in keys:
            layer.put(keys[member.key], member.value)
        elif only_user:
            raise DialectProblem(member.value, "unknown key; a top-level sandbox.docker takes only user")
        else:
            own.append(member)
    if own:
        layer.put("docker", replace(value, members=tuple(own)))


def _agents(agents: Object, moved: _Layer, workspace: Value | None) -> Object:
    members = {member.key: member for member in agents.members}
    defaults = _set(members.pop("defaults", None))
    base = defaults.value if defaults else Object(path="agents.defaults", start=agents.start, end=agents.start)
    if isinstance(base, Object):
        base = _agent(base, moved, workspace)
        if base.members:
            members["defaults"] = Member(key="defaults", start=base.start, value=base)
    elif defaults:
        members["defaults"] = defaults
    entries = [*_entries(_set(members.pop("entries", None))), *_listed(_set(members.pop("list", None)))]
    seen: dict[str, Member] = {}
    for entry in entries:
        before = seen.setdefault(entry.key.lower(), entry)
        if before is not entry:
            raise DialectProblem(entry.value, f"the agent {entry.key!r} is already defined at {before.value.path}")
    if entries:
        value = Object(path="agents.entries", start=agents.start, end=agents.end, members=tuple(entries))
        members["entries"] = Member(key="entries", start=agents.start, value=value)
    return replace(agents, members=tuple(members.values()))


def _servers(root: Object) -> Object:
    """Translate the sandbox of each MCP server like an agent's."""
    mcp = root.get("mcp")
    servers = mcp.get("servers") if isinstance(mcp, Object) else None
    if not isinstance(mcp, Object) or not isinstance(servers, Object):
        return root
    made = replace(servers, members=tuple(_entries(Member(key="servers", start=servers.start, value=servers))))
    return _with(root, "mcp", _with(mcp, "servers", made))


def _with(object_: Object, key: str, value: Value) -> Object:
    """Return an object with one member's value replaced."""
    members = (replace(one, value=value) if one.key == key else one for one in object_.members)
    return replace(object_, members=tuple(members))


def _set(member: Member | None) -> Member | None:
    return None if member is None or is_null(member.value) else member


def _agent(agent: Object, moved: _Layer | None = None, workspace: Value | None = None) -> Object:
    layer = moved or _Layer()
    own = agent.get("workspace")
    kept = [member for member in agent.members if member.key not in ("sandbox", "workspace")]
    folders = [folder for folder in (own, workspace) if folder is not None and not is_null(folder)]
    if len(folders) > 1 and plain(folders[0]) != plain(folders[1]):
        other = folders[1].path
        raise DialectProblem(folders[0], f"disagrees with {other}, another spelling of the same setting")
    kept += [Member(key="workspace", start=folder.start, value=folder) for folder in folders[:1]]
    sandbox = agent.get("sandbox")
    if sandbox is not None and not isinstance(sandbox, Object) and not is_null(sandbox):
        return replace(agent, members=(*kept, Member(key="sandbox", start=sandbox.start, value=sandbox)))
    if isinstance(sandbox, Object):
        _sandbox(sandbox.members, layer)
    if layer.members:
        path = join(agent.path, "sandbox")
        base = sandbox if isinstance(sandbox, Object) else Object(path=path, start=agent.start, end=agent.end)
        filled = _network_members(layer.fill(base))
        kept.append(Member(key="sandbox", start=filled.start, value=filled))
    return replace(agent, members=tuple(kept))


def _sandbox(members: Iterable[Member], layer: _Layer) -> None:
    for member in members:
        if member.key == "docker":
            _docker(member.value, layer)
        else:
            layer.put(_SANDBOX_KEYS.get(member.key, member.key), member.value)


def _network_members(sandbox: Object) -> Object:
    shaped = (replace(m, value=_network(m.value)) if m.key == "network" else m for m in sandbox.members)
    return replace(sandbox, members=tuple(shaped))


def _network(value: Value) -> Value:
    """Normalise `network`: a name, or the name `allow` and the rest of what was written."""
    if isinstance(value, Object):
        stray = value.get("name")
        if stray is not None:
            raise DialectProblem(stray, "unknown key; network is a name, or an object with allow, raw, ask and inject")
        mark = Value(path=value.path, start=value.start, end=value.end, scalar="allow")
        return replace(value, members=(Member(key="name", start=value.start, value=mark), *value.members))
    if is_null(value):
        return value
    if not isinstance(value.scalar, str) or type(value) is not Value or value.scalar == "allow":
        raise DialectProblem(value, 'must be a name such as "none", or listed destinations: { allow: ["host:port"] }')
    members = (Member(key="name", start=value.start, value=value),)
    return Object(path=value.path, start=value.start, end=value.end, members=members)


def _entries(member: Member | None) -> list[Member]:
    if member is None:
        return []
    if not isinstance(member.value, Object):
        raise DialectProblem(member.value, "must be an object: { ops: { … } }; a list belongs at agents.list")
    return [
        replace(m, value=_agent(m.value) if isinstance(m.value, Object) else m.value)
        for m in member.value.members
        if not is_null(m.value)
    ]


def _listed(member: Member | None) -> list[Member]:
    if member is None:
        return []
    if not isinstance(member.value, Array):
        raise DialectProblem(member.value, 'must be a list of agents: [{ id: "ops", … }]')
    made = []
    for item in member.value.items:
        name = item.get("id") if isinstance(item, Object) else None
        if not isinstance(item, Object) or name is None or not isinstance(name.scalar, str):
            raise DialectProblem(item, 'every agent of the list needs an id: { id: "ops", … }')
        body = replace(item, members=tuple(m for m in item.members if m.key != "id"))
        made.append(Member(key=name.scalar, start=item.start, value=_agent(body)))
    return made
