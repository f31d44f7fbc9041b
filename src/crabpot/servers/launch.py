"""From a configured server to what starts it for an agent: its words, and the settings of its sandbox."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crabpot.decide.servers import acting, place_of, secrets_of
from crabpot.errors import CrabpotError
from crabpot.presets import programs, secret_store
from crabpot.settings import TRUSTED_PATH, Inject
from crabpot.spec import binds, build, hardening

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.settings import AgentSettings, McpServer, Settings
    from crabpot.spec.binds import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What starts a server: its words, and the settings under which it acts."""

    argv: tuple[str, ...]
    agent: AgentSettings


def launch(
    name: str, settings: Settings, agent: AgentSettings, around: Surroundings, environ: Mapping[str, str]
) -> Launch:
    """Return what starts a server for an agent, or raise CrabpotError: its program is found as for `crabpot run`."""
    server = settings.mcp.servers[name]
    if server.command is None:
        raise CrabpotError(f"the server {name} is remote: servers at a url are not reached yet; use a command")
    base = acting(name, settings, agent)
    inject, dummies = _secrets(name, server, around, environ)
    sandbox = base.sandbox
    if inject:
        sandbox = replace(sandbox, network=replace(sandbox.network, inject=(*sandbox.network.inject, *inject)))
    first = binds.expand(server.command[0], around.home)
    program = programs.find(first, environ.get("PATH", TRUSTED_PATH), around.home)
    path = ":".join(dict.fromkeys((*program.path, *hardening.PATH.split(":"))))
    env = {"PATH": path, **dummies, **sandbox.env}
    made = replace(base, sandbox=replace(sandbox, env=env, programs=(*sandbox.programs, *program.shows)))
    wrong = next(build.problems(made, around), None)
    if wrong is not None:
        raise CrabpotError(f"the server {name} cannot run as configured: {wrong[1]} ({made.source(wrong[0])})")
    return Launch(argv=(*program.argv, *server.command[1:]), agent=made)


def _secrets(
    name: str, server: McpServer, around: Surroundings, environ: Mapping[str, str]
) -> tuple[list[Inject], dict[str, str]]:
    """Return the headers that the gateway adds outside, and the dummies that stand in the keys' place inside."""
    inject, dummies = [], {}
    for secret in secrets_of(server):
        source = secret_store.find(around.state, secret.env, environ)
        if source is None:
            how = f"export it, or run `crabpot secrets set {secret.env}`"
            raise CrabpotError(f"the server {name} needs the key {secret.env}, which is missing: {how}")
        place = place_of(secret)
        inject.append(Inject(host=place, header=secret.header, value_from=source, tls=secret.tls, format=secret.format))
        dummies[secret.env] = f"crabpot-keeps-{secret.env.lower().replace('_', '-')}-outside"
    return inject, dummies
