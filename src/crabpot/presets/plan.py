"""From a preset and the options of `run` to the settings of one sandbox: an ordinary agent's, made for a folder."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from crabpot.errors import CrabpotError
from crabpot.presets import secret_store
from crabpot.presets.preset import Secret
from crabpot.settings import (
    GIB,
    AgentSettings,
    Elevated,
    Inject,
    Limits,
    Network,
    Prune,
    Sandbox,
    Settings,
    Size,
    Tools,
)
from crabpot.spec import binds, build, hardening
from crabpot.spec.naming import is_variable_name
from crabpot.spec.network import HTTPS_PORT, canonical_place, split_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.presets.preset import Preset
    from crabpot.presets.programs import Program
    from crabpot.spec.binds import Surroundings

AGENT = "run"
# A configuration lists names alone; this is one subcommand, and the rest of git stays inside.
PUSH = "git push"
Way = Literal["review", "direct", "private"]

_FOREVER_S = 10 * 365 * 86_400.0
_WORKSPACE: Mapping[Way, Literal["review", "rw", "none"]] = {"review": "review", "direct": "rw", "private": "none"}
_SLUG = re.compile(r"[^a-z0-9._-]+")
_NOT_IN_HOMES = re.compile(r"[^a-z0-9_-]+")
_LONGEST_HOME = 64

# Tokens that tools read from the environment, where no preset says it.
_KNOWN = {
    "GH_TOKEN": Secret(
        env="GH_TOKEN", host="api.github.com", header="Authorization", format="token {}", tls="terminate"
    ),
    "GITHUB_TOKEN": Secret(
        env="GITHUB_TOKEN", host="api.github.com", header="Authorization", format="token {}", tls="terminate"
    ),
    "NPM_TOKEN": Secret(
        env="NPM_TOKEN", host="registry.npmjs.org", header="Authorization", format="Bearer {}", tls="terminate"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the person asked for on the command line."""

    folder: str
    way: Way
    arguments: tuple[str, ...]
    allow: tuple[str, ...] = ()
    ask: bool = False
    ports: tuple[int, ...] = ()
    env: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    home: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What will run, where, and what the person is told before it does."""

    name: str
    session: str
    folder: str
    way: Way
    home: str
    argv: tuple[str, ...]
    agent: AgentSettings
    seed: Mapping[str, str]
    keys: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Keys:
    """The keys that stay outside, as they are found."""

    inject: list[Inject] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    args: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def session_for(folder: str) -> str:
    """Return the session of a folder: the same for every agent that runs there, so that its layer is found again."""
    name = _SLUG.sub("-", os.path.basename(folder).lower()).strip("-.")[:24] or "folder"
    return f"agent:{AGENT}:{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"


def home_of(program: str) -> str:
    """Return the name of the private home of a program, whatever that is called: `agent.sh` has "agent-sh"."""
    return _NOT_IN_HOMES.sub("-", program.lower())[:_LONGEST_HOME].strip("-_") or "agent"


def make(  # noqa: PLR0913  all that a run is made from
    name: str,
    preset: Preset | None,
    *,
    program: Program,
    wishes: Wishes,
    around: Surroundings,
    environ: Mapping[str, str],
) -> RunPlan:
    """Return the plan, or raise CrabpotError for what cannot be had."""
    keys = _keys(preset, wishes, around, environ)
    home = wishes.home or home_of(name)
    hosts = dict.fromkeys((*(preset.hosts if preset else ()), *keys.hosts, *wishes.allow))
    env = {**(preset.env if preset else {}), **keys.env, **_passed(wishes.env, environ)}
    path = ":".join(dict.fromkeys((*program.path, *hardening.PATH.split(":"))))
    sandbox = Sandbox(
        mode="all",
        workspace=_WORKSPACE[wishes.way],
        workspace_at="same",
        home=home,
        network=Network(name="allow", allow=tuple(hosts), ask=wishes.ask, inject=tuple(keys.inject)),
        programs=program.shows,
        env={"PATH": path, **env},
        limits=_limits(),
        tmp_exec=True,
        ports=wishes.ports,
        prune=Prune(idle_hours=24 * 365, max_age_days=365),
    )
    agent = AgentSettings(
        id=AGENT, workspace=wishes.folder, sandbox=sandbox, tools=Tools(elevated=Elevated(enabled=False))
    )
    wrong = next(build.problems(agent, around), None)
    if wrong is not None:
        raise CrabpotError(f"{name} cannot run in {wishes.folder}: {wrong[1]}")
    own = () if preset is None else preset.args
    notes = [preset.notes] if preset is not None and preset.notes and preset.secrets and not keys.names else []
    return RunPlan(
        name=name,
        session=session_for(wishes.folder),
        folder=wishes.folder,
        way=wishes.way,
        home=home,
        argv=(*program.argv, *own, *keys.args, *wishes.arguments),
        agent=agent,
        seed={} if preset is None else preset.home.seed,
        keys=tuple(keys.names),
        notes=tuple(notes),
    )


def settings_for(plan: RunPlan, settings: Settings) -> Settings:
    """Return the settings of a gateway that runs it; the file's own hostCommands and approvals are kept.

    Where the file lists none, a push may be asked for: without it the agent's work would go nowhere.
    """
    own = settings.agent(AGENT)
    offered, sources = own.sandbox.host_commands, own.sources
    if "sandbox.hostCommands" not in sources:
        offered, sources = (PUSH,), {**sources, "sandbox.hostCommands[0]": "crabpot run"}
    commands = replace(
        plan.agent.sandbox,
        host_commands=offered,
        host_user=own.sandbox.host_user,
        ssh_key=own.sandbox.ssh_key,
    )
    elevated = replace(own.tools.elevated, enabled=False, patterns=())
    agent = replace(plan.agent, sandbox=commands, tools=Tools(elevated=elevated), sources=sources)
    return replace(settings, entries={**settings.entries, AGENT: agent})


def reopened(folder: str) -> AgentSettings:
    """Return the settings that open the layer of an ended run again: its folder, no program and no network."""
    sandbox = Sandbox(mode="all", workspace="review", workspace_at="same", limits=_limits())
    return AgentSettings(id=AGENT, workspace=folder, sandbox=sandbox, tools=Tools(elevated=Elevated(enabled=False)))


def folder_problem(folder: str, around: Surroundings) -> str | None:
    """Return why an agent cannot be put in a folder, in the words of somebody who typed `crabpot run`."""
    if folder == "/" or folder in around.homes():
        return (
            f"{folder} is {'the whole machine' if folder == '/' else 'your home'}: cd into a project, or use --in DIR"
        )
    return binds.refuse_workspace(folder, around)


def _keys(preset: Preset | None, wishes: Wishes, around: Surroundings, environ: Mapping[str, str]) -> _Keys:
    made = _Keys()
    offered = {secret.env: secret for secret in (preset.secrets if preset else ())}
    for name, secret in offered.items():
        if name not in wishes.secrets and secret_store.find(around.state, name, environ) is not None:
            _add(made, secret, around, environ)
    for text in wishes.secrets:
        name, _, host = text.partition("@")
        known = offered.get(name) or _KNOWN.get(name)
        if host:
            known = Secret(env=name, host=host, header="Authorization", format="Bearer {}", tls="terminate")
        if known is None:
            raise CrabpotError(f"--secret {name}: which host is it for? Write --secret {name}@api.example.com")
        _add(made, known, around, environ)
    return made


def _add(made: _Keys, secret: Secret, around: Surroundings, environ: Mapping[str, str]) -> None:
    source = secret_store.find(around.state, secret.env, environ)
    if source is None:
        how = f"export it, or run `crabpot secrets set {secret.env}`"
        raise CrabpotError(f"the key {secret.env} is missing: {how}")
    rule = Inject(host=secret.host, header=secret.header, value_from=source, tls=secret.tls, format=secret.format)
    made.inject.append(rule)
    made.env |= {secret.env: secret.dummy, **secret.sets}
    made.args += secret.args
    host, ports = split_place(canonical_place(secret.host))
    port = ports[0] if len(ports) == 1 else HTTPS_PORT
    made.hosts.append(f"{host}:{port}")
    made.names.append(secret.env)


def _passed(names: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    for name in names:
        if not is_variable_name(name):
            raise CrabpotError(f"--env {name}: that cannot be the name of a variable")
        if name not in environ:
            raise CrabpotError(f"--env {name}: there is no such variable in your environment")
    return {name: environ[name] for name in names}


def _limits() -> Limits:
    """Return limits for a whole agent, which builds and tests: no time limit, and room for many processes."""
    return Limits(
        memory=Size(8 * GIB),
        cpus=float(os.cpu_count() or 2),
        pids=2048,
        time_limit=_FOREVER_S,
        time_ceiling=_FOREVER_S,
        output=Size(64 << 20),
        tmp=Size(2 * GIB),
        open_files=65536,
        file_size=Size(8 * GIB),
        disk=Size(50 * GIB),
    )
