"""From a configured server to what starts it for an agent: its words, and the settings of its sandbox."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from crabpot.decide.servers import acting, place_of, secrets_of
from crabpot.errors import CrabpotError
from crabpot.presets import programs, secret_store
from crabpot.servers import packages, trees
from crabpot.settings import TRUSTED_PATH, Inject
from crabpot.spec import binds, build, hardening

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.presets.programs import Program
    from crabpot.servers.sealing import Lock
    from crabpot.settings import AgentSettings, McpServer, Settings
    from crabpot.spec.binds import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What starts a server: its words, and the settings under which it acts."""

    argv: tuple[str, ...]
    agent: AgentSettings


def launch(  # noqa: PLR0913  whose, for whom, and where
    name: str,
    settings: Settings,
    agent: AgentSettings,
    around: Surroundings,
    environ: Mapping[str, str],
    *,
    lock: Lock | None = None,
) -> Launch:
    """Return what starts a server for an agent, or raise CrabpotError: its program is found as for `crabpot run`.

    `lock` is what its package was sealed to.
    """
    command = settings.mcp.servers[name].command or ()
    base, dummies = _with_secrets(name, settings, agent, around, environ)
    sandbox = base.sandbox
    package = packages.of(command)
    if package is None:
        first = binds.expand(command[0], around.home)
        started = _Started(program=programs.find(first, environ.get("PATH", TRUSTED_PATH), around.home))
    elif lock is None:
        raise CrabpotError(
            f"nobody has approved the package of the server {name} yet; run `crabpot servers approve {name}`"
        )
    else:
        started = _sealed(lock, around, environ)
    args = command[1:] if package is None else package.args
    path = ":".join(dict.fromkeys((*started.program.path, *hardening.PATH.split(":"))))
    env = {"PATH": path, **started.env, **dummies, **sandbox.env}
    shown = (*sandbox.programs, *started.program.shows, *started.shows)
    made = replace(base, sandbox=replace(sandbox, env=env, programs=shown))
    return Launch(argv=(*started.program.argv, *started.words, *args), agent=_checked(name, made, around))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Started:
    program: Program
    words: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def _sealed(lock: Lock, around: Surroundings, environ: Mapping[str, str]) -> _Started:
    """Return what starts a sealed package: its own program, by the interpreter that it was sealed for."""
    layer = os.path.realpath(trees.folder(around.state, lock["tree"]))
    entry = f"{layer}/{lock['program']}"
    path = environ.get("PATH", TRUSTED_PATH)
    if lock["manager"] == "npm":
        node = programs.find("node", path, around.home, "install Node.js")
        return _Started(program=replace(node, argv=()), words=(entry,), shows=(layer,))
    python = programs.find(lock["python"], path, around.home, "approve the server again")
    env = {"PYTHONPATH": layer, "PYTHONDONTWRITEBYTECODE": "1"}
    return _Started(program=python, words=("-s", "-P", entry), shows=(layer,), env=env)


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
