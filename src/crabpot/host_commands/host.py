"""Plan an elevated command: find its program, folder, guard and environment on the gateway's own machine."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crabpot.decide import known_programs
from crabpot.errors import HostRefused
from crabpot.host_commands import folders, loopback, programs, reviewed, trusted
from crabpot.host_commands.git import identity
from crabpot.host_commands.git import operation as operations
from crabpot.host_commands.git import relay as relays
from crabpot.host_commands.git.clock import Clock
from crabpot.host_commands.git.inside import Inside
from crabpot.host_commands.git.outside import Bounds
from crabpot.host_commands.git.prepared import GitContext
from crabpot.host_commands.guard import places
from crabpot.host_commands.guard import start as guards
from crabpot.host_commands.plan import Guard, Plan
from crabpot.spec import build
from crabpot.spec.binds import expand
from crabpot.spec.naming import HOMES, LAYERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from crabpot.approvals.identity import Identity
    from crabpot.decide.elevation import ElevationRule
    from crabpot.host_commands.folders import Folder
    from crabpot.host_commands.git.operation import Operation
    from crabpot.host_commands.git.prepared import Prepared
    from crabpot.host_commands.loopback import Hop
    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import SandboxSpec
    from crabpot.wire.calls import RunnerWire

_PASSED = ("HOME", "USER", "LANG", "SSH_AUTH_SOCK")
# Git needs at least this much to take an agent's pack, however small the sandbox is.
_LEAST_MEMORY = 1 << 30
_UNCONFINED = 'fix that, or write confine: "host" in the pattern, which runs it unconfined'


@dataclass(slots=True, kw_only=True)
class Host:
    """The gateway's own machine and user, on which elevated commands run."""

    settings: Settings
    around: Surroundings
    environ: Mapping[str, str]
    _bwrap: guards.Bwrap | None = None

    async def prepare(  # noqa: PLR0913  a command, whose it is, and the rule that elevates it
        self,
        argv: Sequence[str],
        agent: AgentSettings,
        spec: SandboxSpec,
        rule: ElevationRule,
        *,
        cwd: str | None = None,
        limit_s: float | None = None,
        inside: Callable[[], Awaitable[RunnerWire]] | None = None,
    ) -> Plan:
        """Plan one command for a session whose sandbox is `spec`; HostRefused says why it cannot run.

        `inside` returns the wire to that sandbox's own git, which may take `limit_s`.
        """
        words = tuple(argv)
        if not words or any("\0" in word for word in words):
            raise HostRefused("invalid_arguments", "a command is one or more words without NUL characters")
        path = trusted.path_of(agent)
        binary = trusted.find(words[0], path, self.written(spec))
        hop = self._hop(agent, path, spec)
        free = hop is not None or rule.confine == "host"
        if spec.layer is not None or spec.remote:
            spec, folder = self._apart(words, spec, confined=not free, shared=hop is not None)
        else:
            folder = folders.hold(spec, cwd)
        try:
            env = self.environment(agent, path)
            operation = None if free or words[0] != "git" else operations.read(words)
            if operation is not None and inside is not None:
                relay = await self._relay(
                    operation,
                    agent,
                    spec,
                    folder=folder,
                    git=binary,
                    env=env,
                    cwd=cwd,
                    limit_s=limit_s,
                    wire=await inside(),
                )
                dangers = (*_dangers(words, rule, None, hop, relayed=True), *relay.dangers)
                return Plan(
                    argv=words, binary=binary, folder=folder, env=env, dangers=dangers, grants=rule.grants, relay=relay
                )
            # In a thread: it examines hundreds of paths, and the first time starts a program.
            guard = None if free else await asyncio.to_thread(self._guard, words, rule, spec, env)
            if guard is not None:
                env = await self._within(words, rule, env)
            obeyed = programs.executes(words, folder.fd)
            return Plan(
                argv=words,
                binary=binary,
                folder=folder,
                env=env,
                executes=(
                    *(() if hop is None else (f"all of it as the user {hop.user}, over ssh to this machine",)),
                    *obeyed,
                ),
                dangers=tuple(_dangers(words, rule, guard, hop)),
                guard=guard,
                grants=rule.grants,
                hop=hop,
                obeyed=obeyed,
            )
        except BaseException:
            folder.close()
            raise

    def _apart(
        self, argv: Sequence[str], spec: SandboxSpec, *, confined: bool, shared: bool
    ) -> tuple[SandboxSpec, Folder]:
        """Keep a command away from the folder under review or elsewhere; HostRefused if it would need that."""
        reviewed.check(argv, confined=confined, in_pod=spec.layer is None)
        if reviewed.is_relayed(argv, confined=confined):
            own = spec if spec.layer is not None else reviewed.with_own_folder(spec, self.around.state)
            return own, folders.hold(own, None)
        empty = reviewed.with_empty_folder(spec, self.around.state, shared=shared)
        return empty, folders.hold(empty, None, temporary=True)

    async def _relay(  # noqa: PLR0913  everything that an operation depends on
        self,
        operation: Operation,
        agent: AgentSettings,
        spec: SandboxSpec,
        *,
        folder: Folder,
        git: Identity,
        env: Mapping[str, str],
        cwd: str | None,
        limit_s: float | None,
        wire: RunnerWire,
    ) -> Prepared:
        limits = agent.sandbox.limits
        clock = Clock(limit_s=limits.time_ceiling if limit_s is None else limit_s)
        context = GitContext(
            state=self.around.state,
            inside=Inside(wire=wire, cwd=cwd, clock=clock),
            git=git,
            env=env,
            root=folder.root,
            folder=os.path.join(folder.path, operation.folder),
            written=self.written(spec),
            secrets=tuple(self.around.secrets()),
            bounds=Bounds(disk=limits.disk, memory=max(limits.memory, _LEAST_MEMORY)),
            clock=clock,
        )
        return await relays.prepare(operation, context)

    def _guard(self, argv: tuple[str, ...], rule: ElevationRule, spec: SandboxSpec, env: Mapping[str, str]) -> Guard:
        if self._bwrap is None:
            found = guards.find()
            if isinstance(found, str):
                raise HostRefused("denied", f"this machine cannot make a guard: {found}; {_UNCONFINED} ({rule.grants})")
            self._bwrap = found
        seen = places.view(argv, rule, spec, self._with_every_key(), env=env, programs=env["PATH"].split(":"))
        return Guard(view=seen, bwrap=self._bwrap)

    def _with_every_key(self) -> Surroundings:
        """Return the surroundings with the keys that any agent's settings name: no agent's command sees them."""
        agents = [self.settings.defaults, *self.settings.entries.values()]
        files = [file for one in agents for _, file in build.keys(one, self.around)]
        files += [expand(one.sandbox.ssh_key, self.around.home) for one in agents if one.sandbox.ssh_key is not None]
        return replace(self.around, keys=(*self.around.keys, *dict.fromkeys(files)))

    async def _within(self, argv: tuple[str, ...], rule: ElevationRule, env: dict[str, str]) -> dict[str, str]:
        """Return the environment of a guarded command: what it needs, and no socket that it cannot reach."""
        given = {**env, **dict(known_programs.needs(argv).variables)}
        if "ssh" not in rule.credentials:
            given.pop("SSH_AUTH_SOCK", None)
        if argv[0] == "git":
            given |= await identity.variables(env, self.around.home)
        return given

    def environment(self, agent: AgentSettings, path: str) -> dict[str, str]:
        """Return the environment of a host command: a few of the gateway's own variables, and the trusted PATH."""
        # Another user has their own home, and no access to the gateway's ssh agent.
        own = _PASSED if agent.sandbox.host_user is None else ("LANG",)
        given = {name: self.environ[name] for name in (*own, *agent.tools.elevated.pass_env) if name in self.environ}
        home = {"HOME": self.around.home} if agent.sandbox.host_user is None else {}
        return {**home, **given, "PATH": path}

    def _hop(self, agent: AgentSettings, path: str, spec: SandboxSpec) -> Hop | None:
        sandbox = agent.sandbox
        if sandbox.host_user is None or sandbox.ssh_key is None:
            return None
        shown = (*self.written(spec), *(mount.source for mount in spec.mounts), *filter(None, [spec.agent_workspace]))
        return loopback.find(
            host_user=sandbox.host_user,
            ssh_key=sandbox.ssh_key,
            home=self.around.home,
            path=path,
            state=self.around.state,
            shown=shown,
        )

    def written(self, spec: SandboxSpec) -> tuple[str, ...]:
        """List the folders of the host that some sandbox may write."""
        agents = [self.settings.defaults, *self.settings.entries.values()]
        shown = [folder for one in agents for _, folder, writes in build.shown(one, self.around) if writes]
        kept = [f"{self.around.state}/{name}" for name in ("sandboxes", LAYERS, HOMES)]
        return tuple(dict.fromkeys([*spec.writes, *shown, *kept]))


def _dangers(
    argv: tuple[str, ...], rule: ElevationRule, guard: Guard | None, hop: Hop | None, *, relayed: bool = False
) -> list[str]:
    found = [known_programs.danger(rule.pattern)]
    if not known_programs.is_harmless(argv):
        found.append(known_programs.danger(f"{argv[0]} *"))
    if guard is None and hop is None and not relayed:
        found.append('unconfined: the pattern says confine: "host", so it may do whatever the gateway\'s user may')
    if guard is not None and "docker" in (*rule.credentials, *known_programs.needs(argv).credentials):
        found.append("it gets the docker engine's socket, and with it the whole host")
    return list(dict.fromkeys(one for one in found if one is not None))
