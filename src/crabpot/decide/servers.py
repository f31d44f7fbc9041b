"""Decide where the tools of MCP servers run: which server a name belongs to, and the sandbox it has for an agent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.decide.placement import Placement, scope_key
from crabpot.model import Place, Verdict
from crabpot.settings import AgentSettings, Network, ServerSecret
from crabpot.spec.network import HTTP_PORT, HTTPS_PORT, canonical_place, split_place

if TYPE_CHECKING:
    from crabpot.decide.sessions import Session
    from crabpot.settings import McpServer, Settings

# Tokens that servers read from the environment, where the configuration names no host.
KNOWN_SECRETS = {
    "GH_TOKEN": ServerSecret(env="GH_TOKEN", host="api.github.com", format="token {}"),
    "GITHUB_TOKEN": ServerSecret(env="GITHUB_TOKEN", host="api.github.com", format="token {}"),
    "GITHUB_PERSONAL_ACCESS_TOKEN": ServerSecret(
        env="GITHUB_PERSONAL_ACCESS_TOKEN", host="api.github.com", format="token {}"
    ),
    "BRAVE_API_KEY": ServerSecret(
        env="BRAVE_API_KEY", host="api.search.brave.com", header="X-Subscription-Token", format="{}"
    ),
}
_SHARED = {"session": "each session", "agent": "each agent", "shared": "all agents together"}


def is_installation(key: str) -> bool:
    """Return whether a scope key is of no session, but of a server that is installed or heard for its approval."""
    return key.startswith("server:") and key.endswith((":sealing", ":approval"))


def owner(tool: str, settings: Settings) -> str | None:
    """Return the configured server whose tool this name is, or None."""
    name, _, bare = tool.partition("__")
    return name if bare and name in settings.mcp.servers else None


def place(name: str, session: Session, agent: AgentSettings, settings: Settings) -> Verdict[Placement]:
    """Place a server's tools: in a sandbox of the server's own, one for each scope key, wherever the session is."""
    server, source = settings.mcp.servers[name], settings.mcp_sources.get(name, f"mcp.servers.{name}")
    written = f"{name}.sandbox.scope" in settings.mcp_sources
    scope = server.sandbox.scope if written else agent.sandbox.scope
    shared = replace(agent, sandbox=replace(agent.sandbox, scope=scope))
    key = f"server:{name}:{scope_key(session, shared)}"
    if server.url is not None:
        because = f"the server {name} is remote, and reached through the gateway at {server.url}"
        return Verdict(answer=Placement(where=Place.NONE, scope_key=key), because=because, source=source)
    because = f"the server {name} has a sandbox of its own for {_SHARED[scope]}"
    return Verdict(answer=Placement(where=Place.SANDBOX, scope_key=key), because=because, source=source)


def acting(name: str, settings: Settings, agent: AgentSettings) -> AgentSettings:
    """Return the settings under which a server acts for an agent: the server's own sandbox, and no tools of ours."""
    server = settings.mcp.servers[name]
    sandbox = replace(server.sandbox, env={**server.sandbox.env, **server.env}, network=_network(server))
    start = f"{name}."
    sources = {path.removeprefix(start): at for path, at in settings.mcp_sources.items() if path.startswith(start)}
    return AgentSettings(id=agent.id, workspace=agent.workspace, sandbox=sandbox, sources=sources)


def secrets_of(server: McpServer) -> list[ServerSecret]:
    """Return a server's secrets, those that are written as `NAME@host` or as a known name too."""
    made = []
    for written in server.secrets:
        if isinstance(written, ServerSecret):
            made.append(written)
        elif server.url is not None and "@" not in written:
            made.append(ServerSecret(env=written, host=place_of_url(server.url)))
        elif written in KNOWN_SECRETS:
            made.append(KNOWN_SECRETS[written])
        elif "@" in written:
            name, _, host = written.partition("@")
            made.append(ServerSecret(env=name, host=host))
    return made


def _network(server: McpServer) -> Network:
    """Return a server's network: what is listed, the hosts of its secrets, and the place of a remote one."""
    network = server.sandbox.network
    places = [place_of(secret) for secret in secrets_of(server) if _is_place(secret.host)]
    places += [] if server.url is None else _places_of_url(server.url)
    if not places or network.name not in ("none", "allow"):
        return network
    return replace(network, name="allow", allow=tuple(dict.fromkeys((*network.allow, *places))))


def _is_place(text: str) -> bool:
    try:
        canonical_place(text)
    except ValueError:
        return False
    return True


def place_of(secret: ServerSecret) -> str:
    """Return the one place that a secret is for."""
    host, ports = split_place(canonical_place(secret.host))
    return f"{host}:{ports[0] if len(ports) == 1 else HTTPS_PORT}"


def _places_of_url(url: str) -> list[str]:
    """Return what a URL lists by being written: its place, and for `localhost` this machine's own addresses."""
    place = place_of_url(url)
    host, _, port = place.rpartition(":")
    return [place, *(f"{address}:{port}" for address in ("127.0.0.1", "[::1]") if host == "localhost")]


def place_of_url(url: str) -> str:
    """Return the place that a URL leads to."""
    from urllib.parse import urlsplit  # noqa: PLC0415  few configurations have a URL

    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (HTTPS_PORT if parts.scheme == "https" else HTTP_PORT)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
