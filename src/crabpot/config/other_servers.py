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
from crabpot.decide.servers import KNOWN_SECRETS
from crabpot.errors import CrabpotError

# Where each program keeps its servers.
_PLACES = (("mcpServers",), ("mcp_servers",), ("servers",), ("mcp", "servers"))
_SECRET = re.compile(r"(?:^|_)(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PAT|CREDENTIALS?|AUTH)(?:_|$)", re.IGNORECASE)
_OUTSIDE = "is left out: fill it in yourself"


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
    return made


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
        server: dict[str, Any] = {"url": url}
        if said.get("headers") or said.get("http_headers") or said.get("bearer_token_env_var"):
            made.notes.append(f"{name}: its headers are left out: name its keys in secrets")
    elif all(isinstance(word, str) and word for word in command):
        if is_engine(str(command[0])):
            why = "a server that a container engine starts runs outside; write the command that the image starts"
            made.notes.append(f"{name}: left out: {why}")
            return
        server = {"command": command}
    else:
        made.notes.append(f"{name}: left out: it has neither a command nor a url")
        return
    _variables(name, said.get("env"), server, made)
    if said.get("disabled") is True or said.get("enabled") is False:
        made.notes.append(f"{name}: left out: it is switched off there")
        return
    made.servers[ours] = server


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
