"""From an agent's settings and a scope key to the spec of its sandbox; every refusal names the setting."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crabpot.spec import binds, grants, hardening, kubernetes, naming, network
from crabpot.spec.spec import Mount, SandboxSpec, User

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from crabpot.settings import AgentSettings, Docker, Limits, Sandbox
    from crabpot.spec.binds import Surroundings

_COMMAND = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}", re.ASCII)
_ACCOUNT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}(?::[0-9]{1,5})?", re.ASCII)
_HOME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_HIGHEST_PORT = 65535
_HIGHEST_ID = 2**32 - 2

_MIB = 1024**2


def build(agent: AgentSettings, scope_key: str, around: Surroundings) -> SandboxSpec:
    """Return the spec. The settings have passed `problems`; a link that changed since is refused here again."""
    sandbox = agent.sandbox
    name = naming.sandbox_name(scope_key)
    own = binds.expand(agent.workspace, around.home)
    private = sandbox.workspace in ("none", "ro")
    refusal = None if sandbox.workspace == "none" else _workspace_refusal(agent, own, around)
    if refusal:
        raise binds.BindRefused(refusal)
    inside = workspace_inside(agent, scope_key, around)
    return SandboxSpec(
        scope_key=scope_key,
        name=name,
        backend=sandbox.backend,
        workspace=naming.private_folder(around.state, name) if private else os.path.realpath(own),
        private=private,
        agent_workspace=os.path.realpath(own) if sandbox.workspace == "ro" else None,
        mounts=mounts(sandbox, around, taken=_taken(sandbox, inside)),
        user=None if sandbox.user is None else parse_user(sandbox.user),
        network=network.describe(sandbox.network),
        env=environment(sandbox, home=hardening.HOME if sandbox.home else inside),
        tmp_exec=sandbox.tmp_exec,
        limits=sandbox.limits,
        docker=sandbox.docker,
        kubernetes=sandbox.kubernetes,
        socket=sandbox.socket,
        host_commands=sandbox.host_commands,
        workspace_at=inside,
        agent="" if sandbox.scope == "shared" else agent.id,
        home=None if sandbox.home is None else f"{around.state}/{naming.HOMES}/{sandbox.home}",
        layer=f"{os.path.realpath(around.state)}/{naming.LAYERS}/{name}" if sandbox.workspace == "review" else None,
    )


def workspace_inside(agent: AgentSettings, scope_key: str, around: Surroundings) -> str:
    """Return where the workspace is inside: at /workspace, but for E2B's programs, and a folder at its own path."""
    sandbox = agent.sandbox
    if shown_at_own_path(sandbox):
        return os.path.realpath(binds.expand(agent.workspace, around.home))
    # The runner behind a socket has its folders already.
    own = naming.of_e2b(scope_key) and sandbox.backend != "socket"
    return hardening.E2B_HOME if own else hardening.WORKSPACE


def _workspace_refusal(agent: AgentSettings, workspace: str, around: Surroundings) -> str | None:
    # Under review too: what is applied is written there.
    written = agent.sandbox.workspace in ("rw", "review")
    writing = binds.refuse_writing(workspace, around) if written else None
    landing = (
        binds.refuse_landing(workspace, home=agent.sandbox.home is not None)
        if shown_at_own_path(agent.sandbox)
        else None
    )
    return binds.refuse_workspace(workspace, around) or writing or landing


def shown_at_own_path(sandbox: Sandbox) -> bool:
    """Return whether the agent's folder appears inside at the path that it has on the host."""
    return sandbox.workspace_at == "same" and sandbox.workspace not in ("none", "ro")


def shown(agent: AgentSettings, around: Surroundings) -> Iterator[tuple[str, str, bool]]:
    """Yield the host folders that an agent's sandboxes see, as (merged path, folder, whether they may write it)."""
    sandbox = agent.sandbox
    if sandbox.mode == "off":
        return
    if sandbox.workspace != "none":
        workspace = binds.normal(binds.expand(agent.workspace, around.home))
        yield "workspace", workspace, sandbox.workspace == "rw"
    for index, text in enumerate(sandbox.binds):
        source, _, access = binds.parse(text)
        yield f"sandbox.binds[{index}]", binds.normal(binds.expand(source, around.home)), access == "rw"


def keys(agent: AgentSettings, around: Surroundings) -> Iterator[tuple[str, str]]:
    """Yield the files whose content the gateway adds to an agent's requests, unseen by it, as (merged path, file)."""
    for index, rule in enumerate(agent.sandbox.network.inject):
        if rule.value_from.file is not None:
            file = binds.normal(binds.expand(rule.value_from.file, around.home))
            yield f"sandbox.network.inject[{index}].valueFrom.file", file


def swappable(agent: AgentSettings, agents: Iterable[AgentSettings], around: Surroundings) -> Iterator[tuple[str, str]]:
    """Yield what could be swapped for a link to anywhere: what lies inside a folder that some sandbox may write."""
    written = [folder for one in agents for _, folder, writes in shown(one, around) if writes]
    forms = dict.fromkeys(form for folder in written for form in (folder, os.path.realpath(folder)))
    granted = grants.places(agent.tools.elevated, around)
    seen = ((path, folder) for path, folder, _ in shown(agent, around))
    for path, folder in [*seen, *keys(agent, around), *granted]:
        tree = next((tree for tree in forms if binds.is_under(folder, tree)), None)
        if tree is not None:
            why = "an agent could swap it for a link to anywhere"
            yield path, f'"{folder}" lies inside {tree}, which a sandbox may write: {why}; use a folder outside'


def _taken(sandbox: Sandbox, workspace_at: str) -> tuple[str, ...]:
    """Return where the agent's own folders are inside, beyond the places that are reserved for every sandbox."""
    return (workspace_at, *(() if sandbox.home is None else (hardening.HOME,)))


def mounts(sandbox: Sandbox, around: Surroundings, taken: tuple[str, ...] = ()) -> tuple[Mount, ...]:
    """Return every bind, resolved; two at one target are refused, since the later would hide the earlier."""
    made: dict[str, Mount] = {}
    for text in sandbox.binds:
        one = binds.mount(text, around)
        if one.target in taken:
            raise binds.BindRefused(f'"{text}": {one.target} is the agent\'s own folder; choose another place')
        if made.setdefault(one.target, one) != one:
            raise binds.BindRefused(f'"{text}": another bind is already mounted at {one.target}')
    for path in sandbox.programs:
        one = binds.program(path, around)
        made.setdefault(one.target, one)
    return tuple(made.values())


def environment(sandbox: Sandbox, *, home: str = hardening.WORKSPACE) -> dict[str, str]:
    """Return exactly what a program inside finds, except for TERM on a terminal."""
    base = {
        "PATH": hardening.PATH,
        "HOME": home,
        "USER": hardening.USER,
        "LANG": hardening.LANG,
    }
    made = base | dict(sandbox.env)
    # First, whatever else PATH names: a listed host command must be the one that is found.
    return made | {"PATH": f"{hardening.SHIMS}:{made['PATH']}"} if sandbox.host_commands else made


def parse_user(text: str) -> User:
    """Parse `uid` or `uid:gid`; no sandbox runs as root."""
    match = re.fullmatch(r"([0-9]{1,10})(?::([0-9]{1,10}))?", text, re.ASCII)
    if not match:
        raise ValueError(f'"{text}" must be numbers such as "1000:1000" (find yours with `id -u` and `id -g`)')
    uid = int(match[1])
    gid = int(match[2] or match[1])
    if uid == 0 or gid == 0:
        raise ValueError(f'"{text}" is root, which no sandbox runs as')
    if max(uid, gid) > _HIGHEST_ID:
        raise ValueError(f'"{text}" is beyond the highest id, {_HIGHEST_ID}')
    return User(uid=uid, gid=gid)


def problems(agent: AgentSettings, around: Surroundings) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an agent's sandbox settings, as (merged path, message)."""
    sandbox = agent.sandbox
    workspace = binds.expand(agent.workspace, around.home)
    if not workspace.startswith("/"):
        yield "workspace", f'"{agent.workspace}" must be an absolute path or start with ~/'
    elif refusal := _workspace_refusal(agent, workspace, around):
        yield "workspace", refusal
    if sandbox.home is not None and not _HOME.fullmatch(sandbox.home):
        yield "sandbox.home", f'"{sandbox.home}" must be a plain name such as "claude": a-z, 0-9, - and _'
    own = os.path.realpath(workspace) if shown_at_own_path(sandbox) else hardening.WORKSPACE
    yield from _bind_problems(sandbox, around, _taken(sandbox, own))
    yield from _program_problems(sandbox, around)
    yield from network.problems(sandbox.network)
    if sandbox.user is not None and (wrong := _wrong(parse_user, sandbox.user)):
        yield "sandbox.user", wrong
    for key, value in sandbox.env.items():
        if not naming.is_variable_name(key):
            yield f"sandbox.env.{key}", f"{key!r} cannot be the name of a variable"
        if "\0" in value:
            yield f"sandbox.env.{key}", "a value cannot contain a NUL character"
    for index, name in enumerate(sandbox.host_commands):
        if not _COMMAND.fullmatch(name):
            yield f"sandbox.hostCommands[{index}]", f'"{name}" must be the plain name of a command, without a path'
    yield from _pairs(sandbox)
    yield from _limit_problems(sandbox.limits)
    yield from _lifetime_problems(sandbox)
    yield from _docker_problems(sandbox.docker)
    yield from kubernetes.problems(sandbox.kubernetes)


def _bind_problems(sandbox: Sandbox, around: Surroundings, taken: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    targets: dict[str, Mount] = {}
    for index, text in enumerate(sandbox.binds):
        path = f"sandbox.binds[{index}]"
        try:
            one = binds.mount(text, around)
        except binds.BindRefused as refused:
            yield path, str(refused)
            continue
        if one.target in taken:
            yield path, f'"{text}": {one.target} is the agent\'s own folder; choose another place'
        elif targets.setdefault(one.target, one) != one:
            yield path, f'"{text}": another bind is already mounted at {one.target}'


def _program_problems(sandbox: Sandbox, around: Surroundings) -> Iterator[tuple[str, str]]:
    for index, path in enumerate(sandbox.programs):
        try:
            binds.program(path, around)
        except binds.BindRefused as refused:
            yield f"sandbox.programs[{index}]", str(refused)


def _pairs(sandbox: Sandbox) -> Iterator[tuple[str, str]]:
    if (sandbox.host_user is None) != (sandbox.ssh_key is None):
        missing = "sandbox.hostUser" if sandbox.host_user is None else "sandbox.sshKey"
        given = "sandbox.sshKey" if sandbox.host_user is None else "sandbox.hostUser"
        yield given, f"requires {missing.removeprefix('sandbox.')}, which is not set"
    if sandbox.host_user is not None and not _ACCOUNT.fullmatch(sandbox.host_user):
        wrong = f'"{sandbox.host_user}" cannot be the name of a user, or name:port; ssh might read it as an option'
        yield "sandbox.hostUser", wrong
    for key, value in (("sshKey", sandbox.ssh_key), ("socket", sandbox.socket)):
        if value is not None and not value.startswith(("/", "~/")):
            yield f"sandbox.{key}", f'"{value}" must be an absolute path or start with ~/'
    if sandbox.backend == "socket" and sandbox.socket is None:
        yield "sandbox.backend", 'backend "socket" needs the path in `socket`, or $RUNNER_SOCKET'


def _limit_problems(limits: Limits) -> Iterator[tuple[str, str]]:
    counts = {
        "cpus": limits.cpus,
        "pids": limits.pids,
        "timeLimit": limits.time_limit,
        "timeCeiling": limits.time_ceiling,
        "openFiles": limits.open_files,
        "cpuShares": 2 if limits.cpu_shares is None else limits.cpu_shares,
    }
    for name, value in counts.items():
        if value <= 0:
            yield f"sandbox.limits.{name}", "must be above zero; no limit can be switched off"
    if limits.time_limit > limits.time_ceiling:
        both = f"timeLimit ({limits.time_limit:g} s) is above timeCeiling ({limits.time_ceiling:g} s)"
        yield "sandbox.limits.timeLimit", both
    if 0 < limits.pids < 8:  # noqa: PLR2004  the runner, a shell and a pipe need that many
        yield "sandbox.limits.pids", "must be at least 8: the runner and one pipeline need that many"
    if limits.memory < 32 * _MIB:
        yield "sandbox.limits.memory", 'must be at least "32m": the runner needs some of it'
    if 0 < limits.open_files < 64:  # noqa: PLR2004  the runner holds a few for each call
        yield "sandbox.limits.openFiles", "must be at least 64"


def _lifetime_problems(sandbox: Sandbox) -> Iterator[tuple[str, str]]:
    for index, port in enumerate(sandbox.ports):
        if not 0 < port <= _HIGHEST_PORT:
            yield f"sandbox.ports[{index}]", "must be a port from 1 to 65535"
    if sandbox.warm < 0:
        yield "sandbox.warm", "must be 0 or more"
    if sandbox.warm > 0 and sandbox.backend == "kubernetes" and sandbox.kubernetes.storage is not None:
        yield "sandbox.warm", "a volume claim belongs to one scope from the start: take warm or kubernetes.storage out"
    for key, value in (("idleHours", sandbox.prune.idle_hours), ("maxAgeDays", sandbox.prune.max_age_days)):
        if value <= 0:
            yield f"sandbox.prune.{key}", "must be above zero: a sandbox would be gone before its first call"


def _docker_problems(docker: Docker) -> Iterator[tuple[str, str]]:
    for key, value in (("seccomp", docker.seccomp), ("apparmor", docker.apparmor)):
        if value is not None and re.split("[=:]", value)[-1].strip().lower() == "unconfined":
            yield f"sandbox.docker.{key}", f'"{value}" removes a wall, which no configuration may'
    for key, value in (("image", docker.image), ("runtime", docker.runtime), ("apparmor", docker.apparmor)):
        if value is not None and not naming.is_docker_word(value):
            yield f"sandbox.docker.{key}", f'"{value}" cannot be a name; docker might read it as an option'
    for index, name in enumerate(docker.packages.extra):
        if not naming.is_package_name(name):
            yield f"sandbox.docker.packages.extra[{index}]", f'"{name}" cannot be the name of a Debian package'


def _wrong(check: Callable[[str], object], value: str) -> str | None:
    try:
        check(value)
    except ValueError as error:
        return str(error)
    return None
