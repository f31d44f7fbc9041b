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
    command = settings.mcp.servers[name].command or ()
    base, dummies = _with_secrets(name, settings, agent, around, environ)
    sandbox = base.sandbox
    first = binds.expand(command[0], around.home)
    program = programs.find(first, environ.get("PATH", TRUSTED_PATH), around.home)
    path = ":".join(dict.fromkeys((*program.path, *hardening.PATH.split(":"))))
    env = {"PATH": path, **dummies, **sandbox.env}
    made = replace(base, sandbox=replace(sandbox, env=env, programs=(*sandbox.programs, *program.shows)))
    return Launch(argv=(*program.argv, *command[1:]), agent=_checked(name, made, around))


def reached(
    name: str, settings: Settings, agent: AgentSettings, around: Surroundings, environ: Mapping[str, str]
) -> AgentSettings:
    """Return the settings under which a remote server is reached for an agent, or raise CrabpotError."""
    return _checked(name, _with_secrets(name, settings, agent, around, environ)[0], around)


def _checked(name: str, made: AgentSettings, around: Surroundings) -> AgentSettings:
    wrong = next(build.problems(made, around), None)
    if wrong is not None:
        raise CrabpotError(f"the server {name} cannot run as configured: {wrong[1]} ({made.source(wrong[0])})")
    return made


def _with_secrets(
    name: str, settings: Settings, agent: AgentSettings, around: Surroundings, environ: Mapping[str, str]
) -> tuple[AgentSettings, dict[str, str]]:
    base = acting(name, settings, agent)
    inject, dummies = _secrets(name, settings.mcp.servers[name], around, environ)
    network = replace(base.sandbox.network, inject=(*base.sandbox.network.inject, *inject))
    return replace(base, sandbox=replace(base.sandbox, network=network)), dummies


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
        # The gateway's own requests are encrypted or not as the url says; only a program inside needs more than that.
        tls = None if (server.url or "").startswith("http:") else secret.tls
        inject.append(Inject(host=place, header=secret.header, value_from=source, tls=tls, format=secret.format))
        dummies[secret.env] = f"crabpot-keeps-{secret.env.lower().replace('_', '-')}-outside"
    return inject, dummies
