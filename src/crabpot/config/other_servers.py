"""Read the MCP servers of other programs: Claude, Cursor, VS Code, OpenClaw (JSON) and Codex (TOML).

What is read was written by somebody else: a key is never copied, and what would run outside a sandbox is left out.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

from crabpot.config.document import SyntaxProblem, plain
from crabpot.config.reading import parse
from crabpot.config.servers import is_engine, problem_with_name
from crabpot.decide.servers import KNOWN_SECRETS, place_of_url
from crabpot.errors import CrabpotError

# Where each program keeps its servers.
_PLACES = (("mcpServers",), ("mcp_servers",), ("servers",), ("mcp", "servers"))
_SECRET = re.compile(r"(?:^|_)(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PAT|CREDENTIALS?|AUTH)(?:_|$)", re.IGNORECASE)
_OUTSIDE = "is left out: fill it in yourself"
# The folder that is open in an editor: here, the calling agent's.
_FOLDER, _INSIDE = "${workspaceFolder}", "/workspace"
_NAMED = re.compile(r"\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_-]*)\}")


@dataclass(slots=True)
class Imported:
    """Servers in our own spelling, and what was left out of them, as sentences."""

    servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read(text: str, *, toml: bool) -> Imported:
    """Return the servers that a text lists, or raise CrabpotError if it lists none."""
    try:
        root = tomllib.loads(text) if toml else plain(parse(text))
    except (SyntaxProblem, tomllib.TOMLDecodeError, RecursionError) as error:
        raise CrabpotError(f"the file cannot be read: {error}") from None
    made = Imported()
    for name, said in _listed(root).items():
        if isinstance(said, dict):
            _take(str(name), said, made)
        else:
            made.notes.append(f"{name}: {_OUTSIDE}; it is no object")
    _name_projects(root, made)
    return made


def _name_projects(root: Any, made: Imported) -> None:
    """Note the servers that Claude has for one project alone: here they would be every agent's."""
    projects = root.get("projects") if isinstance(root, dict) else None
    for folder, said in projects.items() if isinstance(projects, dict) else ():
        servers = said.get("mcpServers") if isinstance(said, dict) else None
        if isinstance(servers, dict) and servers:
            made.notes.append(f"the project {folder} has servers of its own, left out: {', '.join(map(str, servers))}")


def _listed(root: Any) -> dict[str, Any]:
    for path in _PLACES:
        at = root
        for step in path:
            at = at.get(step) if isinstance(at, dict) else None
        if isinstance(at, dict):
            return at
    known = ", ".join(".".join(path) for path in _PLACES)
    raise CrabpotError(f"the file lists no MCP servers; they are looked for at {known}")


def _take(name: str, said: dict[str, Any], made: Imported) -> None:
    ours = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:32]
    if problem_with_name(ours) is not None or ours in made.servers:
        made.notes.append(f"{name}: left out: it has no name that a server can have here, or another one has it")
        return
    url = said.get("url") or said.get("serverUrl")
    command = [said.get("command"), *(said.get("args") or [])]
    if isinstance(url, str):
        if said.get("type") == "sse":
            made.notes.append(f"{name}: left out: sse was replaced by streamable HTTP; take the url for that")
            return
        server: dict[str, Any] = {"url": url}
        _headers(name, said, server, made)
    elif all(isinstance(word, str) and word for word in command):
        if is_engine(str(command[0])):
            why = "a server that a container engine starts runs outside; write the command that the image starts"
            made.notes.append(f"{name}: left out: {why}")
            return
        server = {"command": [word.replace(_FOLDER, _INSIDE) for word in command]}
        if server["command"] != command:
            made.notes.append(
                f'{name}: to show it the agent\'s folder at {_INSIDE}, write sandbox: {{workspace: "rw"}}'
            )
        elif paths := [word for word in command[1:] if word.startswith(("/", "~/"))]:
            made.notes.append(f"{name}: it sees none of {', '.join(paths)} unless sandbox.binds shows it")
    else:
        made.notes.append(f"{name}: left out: it has neither a command nor a url")
        return
    _variables(name, said.get("env"), server, made)
    if said.get("envFile"):
        made.notes.append(f"{name}: its envFile is left out: plain variables are for env, keys for secrets")
    lists = {"allow": said.get("enabled_tools"), "deny": said.get("disabled_tools")}
    tools = {key: value for key, value in lists.items() if isinstance(value, list) and value}
    server |= {"tools": tools} if tools else {}
    if said.get("disabled") is True or said.get("enabled") is False:
        made.notes.append(f"{name}: left out: it is switched off there")
        return
    made.servers[ours] = server


def _headers(name: str, said: dict[str, Any], server: dict[str, Any], made: Imported) -> None:
    """Take over which keys a remote server gets, and in which headers; never their values."""
    secrets: list[Any] = [said["bearer_token_env_var"]] if isinstance(said.get("bearer_token_env_var"), str) else []
    given = [(header, str(value)) for header, value in _object(said, "headers") + _object(said, "http_headers")]
    given += [(header, f"${{{value}}}") for header, value in _object(said, "env_http_headers")]
    for header, value in given:
        named = _NAMED.search(value)
        scheme, _, rest = value.partition(" ") if header.lower() == "authorization" else ("", "", value)
        if not (named or scheme or _SECRET.search(header.replace("-", "_"))):
            made.notes.append(f"{name}: the header {header} is left out: only keys are added to requests")
            continue
        key = _variable(named[1] if named else f"{name}_{header}" if not scheme else f"{name}_KEY")
        form = f"{scheme} {{}}" if scheme and rest else "{}"
        usual = form.lower() == "bearer {}"
        secret = {"env": key, "host": place_of_url(str(server["url"])), "header": header, "format": form}
        secrets.append(key if usual else secret)
    for one in secrets:
        key = one if isinstance(one, str) else one["env"]
        made.notes.append(f"{name}: keep the key with `crabpot secrets set {key}`, or export it")
    server |= {"secrets": secrets} if secrets else {}


def _object(said: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    value = said.get(key)
    return list(value.items()) if isinstance(value, dict) else []


def _variable(text: str) -> str:
    """Return a name that a variable can have."""
    return re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")


def _variables(name: str, said: Any, server: dict[str, Any], made: Imported) -> None:
    """Take over plain variables; keys stay where they are, and only their names come along."""
    env, secrets = {}, []
    for key, value in said.items() if isinstance(said, dict) else ():
        if key in KNOWN_SECRETS:
            secrets.append(key)
            made.notes.append(f"{name}: keep the key with `crabpot secrets set {key}`, or export it")
        elif not isinstance(value, str) or _SECRET.search(key) or "${" in value:
            host = f"{key}@the.host.it.is.for"
            made.notes.append(f'{name}: the key {key} {_OUTSIDE}: `crabpot secrets set {key}`, and secrets: ["{host}"]')
        else:
            env[key] = value
    server |= ({"env": env} if env else {}) | ({"secrets": secrets} if secrets else {})
