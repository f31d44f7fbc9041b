"""Read the MCP servers of a configuration, and find what about them cannot work."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from crabpot.config.document import Object, Value, join
from crabpot.config.merge import places
from crabpot.config.schema import read
from crabpot.decide.servers import KNOWN_SECRETS, acting, place_of, place_of_url, secrets_of
from crabpot.settings import Mcp, McpServer, Settings
from crabpot.spec import build
from crabpot.spec.naming import is_variable_name
from crabpot.spec.network import HTTPS_PORT, canonical_place, problem_with_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.config.schema import Complain
    from crabpot.settings import ServerSecret
    from crabpot.spec.binds import Surroundings

_NAME = re.compile(r"[a-z0-9](?:_?[a-z0-9-]){0,31}", re.ASCII)
_LONGEST_NAME = 32
# They would start the server outside every wall of ours, as whoever the engine is.
_ENGINES = frozenset({"docker", "podman", "nerdctl", "docker-compose", "podman-compose", "lima", "ctr"})
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_EMPTY_ALLOW = 'an empty allow reads as both "nothing" and "anything"; leave it out'


def with_servers(settings: Settings, value: Value | None, around: Surroundings, complain: Complain) -> Settings:
    """Return the settings with the servers that are written at `mcp`; each problem is reported where it is written."""
    listed = value.get("servers") if isinstance(value, Object) else None
    if not isinstance(listed, Object):
        return settings
    mcp = read(Mcp, value, complain) or Mcp()
    servers: dict[str, McpServer] = {}
    sources: dict[str, str] = {}
    written: dict[str, Value] = {}
    for member in listed.members:
        name = member.key.lower()
        if member.key not in mcp.servers:
            continue
        if wrong := "another server has this name" if name in servers else problem_with_name(name):
            complain(member.value, join(listed.path, member.key), wrong)
        servers[name] = mcp.servers[member.key]
        here = dict(places(member.value, name))
        written |= here
        sources |= {path: one.path for path, one in here.items()}
    made = replace(settings, mcp=Mcp(servers=servers), mcp_sources=sources)
    for name in servers:
        for path, message in _problems(name, made, around):
            found = _nearest(written, f"{name}.{path}" if path else name)
            complain(found, found.path, message)
    return made


def problem_with_name(name: str) -> str | None:
    """Return why a server cannot have this name, or None."""
    if _NAME.fullmatch(name) and len(name) <= _LONGEST_NAME:
        return None
    return "a server's name has letters, digits, - and single _, at most 32, and starts with a letter or digit"


def is_engine(program: str) -> bool:
    """Return whether a program is a container engine's, which starts others outside every wall of ours."""
    return os.path.basename(program).lower() in _ENGINES


def _nearest(written: dict[str, Value], path: str) -> Value:
    while path not in written:
        path = path[: max(path.rfind("."), path.rfind("["))]
    return written[path]


def _problems(name: str, settings: Settings, around: Surroundings) -> Iterator[tuple[str, str]]:
    server = settings.mcp.servers[name]
    if (server.command is None) == (server.url is None):
        yield "", "needs either a command, as a list of words, or a url"
    if server.command is not None:
        yield from _command_problems(server.command)
    if server.url is not None:
        yield from _url_problems(server.url)
        yield from _remote_problems(server)
    if server.sandbox.mode != "all":
        yield "sandbox.mode", "a server never runs on the host; leave mode out"
    if server.sandbox.host_commands:
        yield "sandbox.hostCommands", "a server has no commands on the host; leave them out"
    if server.tools.allow is not None and not server.tools.allow:
        yield "tools.allow", _EMPTY_ALLOW
    yield from _secret_problems(server)
    yield from build.problems(acting(name, settings, settings.defaults), around)


def _command_problems(command: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if not command or not command[0]:
        yield "command", 'must be a list of words that begins with a program, such as ["npx", "some-server"]'
        return
    if is_engine(command[0]):
        shown = " ".join(command[:2])
        why = "it would leave every sandbox of Crabpot; write the command that the image starts instead"
        yield "command", f'"{shown} …" is refused: a server that a container engine starts runs outside: {why}'


def _url_problems(url: str) -> Iterator[tuple[str, str]]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or HTTPS_PORT
        canonical_place(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except ValueError as error:
        yield "url", f'"{url}" is no address of a server: {error}'
        return
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        yield "url", f'"{url}" must begin with https://; http:// is for this machine alone'
    if parts.username or parts.password:
        yield "url", "has a password in it; use secrets"


def _remote_problems(server: McpServer) -> Iterator[tuple[str, str]]:
    if server.env:
        yield "env", "a remote server has no environment here; name its keys in secrets"
    if server.sandbox.network.name not in ("none", "allow"):
        yield "sandbox.network", "a remote server is reached at its url alone; leave network out, or list hosts"


def _secret_problems(server: McpServer) -> Iterator[tuple[str, str]]:
    for index, written in enumerate(server.secrets):
        path = f"secrets[{index}]"
        named = not isinstance(written, str) or "@" in written or written in KNOWN_SECRETS
        if not named and server.url is None:
            yield path, f'"{written}": which host is it for? Write "{written}@api.example.com"'
    for index, secret in enumerate(secrets_of(server)):
        if wrong := _problem_with_secret(secret):
            yield f"secrets[{index}]", wrong
        elif server.url is not None and place_of(secret) != place_of_url(server.url):
            yield f"secrets[{index}]", f"{secret.env} is for another host than the server's url, which alone is reached"


def _problem_with_secret(secret: ServerSecret) -> str | None:
    if not is_variable_name(secret.env):
        return f"{secret.env!r} cannot be the name of a variable"
    try:
        canonical_place(secret.host)
    except ValueError as error:
        return str(error)
    if secret.format.count("{}") != 1:
        return 'format has {} once, where the value goes, such as "Bearer {}"'
    return problem_with_header(secret.header)
