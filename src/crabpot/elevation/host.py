"""What runs on the host once a person agrees: the words, the program, the folder and the environment, all of it fixed.

`prepare` makes the plan that a request shows. `check` looks again, just before the start, and refuses what has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.elevation import folders, loopback, programs, trusted
from crabpot.elevation.git import words as git_words
from crabpot.elevation.git.neutral import Look
from crabpot.elevation.identity import identify
from crabpot.errors import HostRefused
from crabpot.spec import build

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabpot.elevation.folders import Folder
    from crabpot.elevation.git.neutral import Neutral
    from crabpot.elevation.identity import Identity
    from crabpot.elevation.loopback import Hop
    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import SandboxSpec

_PASSED = ("HOME", "USER", "LANG", "SSH_AUTH_SOCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One command on the host, as it is shown and as it will run. It holds its folder: close it."""

    argv: tuple[str, ...]
    binary: Identity
    folder: Folder
    env: Mapping[str, str] = field(repr=False)
    executes: tuple[str, ...] = ()
    """What the program would run or obey of the agent's folder."""
    dangers: tuple[str, ...] = ()
    """What the words hand over beyond what they seem to."""
    hop: Hop | None = None
    """The way to another user, where the configuration names one; else it runs as the gateway's."""
    obeyed: tuple[str, ...] = field(default=(), repr=False)
    """Of that, the files that are looked at again."""
    look: Look | None = field(default=None, repr=False)
    neutral: Neutral | None = field(default=None, repr=False)
    """What was seen of a repository, for programs that use git, and how to look again."""

    @property
    def started(self) -> tuple[tuple[str, ...], Identity, Mapping[str, str]]:
        """What the gateway itself starts: the command, or the ssh that does; its program, and its environment."""
        if self.hop is None:
            return self.argv, self.binary, self.env
        script = self.hop.start(self.argv, self.binary, self.folder, self.env)
        return self.hop.words(script), self.hop.ssh, {"PATH": self.env["PATH"]}

    def close(self) -> None:
        """Let go of the folder; once."""
        self.folder.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The gateway's own machine and user, seen from an elevated command."""

    settings: Settings
    around: Surroundings
    environ: Mapping[str, str]

    async def prepare(
        self, argv: Sequence[str], agent: AgentSettings, spec: SandboxSpec, *, cwd: str | None = None
    ) -> Plan:
        """Plan one command for a session whose sandbox is `spec`; HostRefused says why it cannot run."""
        words = tuple(argv)
        if not words or any("\0" in word for word in words):
            raise HostRefused("invalid_arguments", "a command is one or more words without NUL characters")
        path = trusted.path_of(agent)
        binary = trusted.find(words[0], path, self.written(spec))
        folder = folders.hold(spec, cwd)
        try:
            hop = self._hop(agent, path, spec)
            env = self.environment(agent, path)
            look = self._look(words, folder, env, spec, hop)
            neutral = None if look is None else await look.take()
            obeyed = programs.executes(words, folder.fd)
            return Plan(
                argv=words,
                binary=binary,
                folder=folder,
                env=env if neutral is None else {**env, **neutral.env},
                executes=(
                    *(() if hop is None else (f"all of it as the user {hop.user}, over ssh to this machine",)),
                    *obeyed,
                    *(() if neutral is None else neutral.lines),
                ),
                dangers=(
                    *programs.dangers(words),
                    *(() if look is None else look.words.dangers),
                    *(() if neutral is None else neutral.dangers),
                ),
                hop=hop,
                obeyed=obeyed,
                look=look,
                neutral=neutral,
            )
        except BaseException:
            folder.close()
            raise

    def _look(
        self, argv: tuple[str, ...], folder: Folder, env: dict[str, str], spec: SandboxSpec, hop: Hop | None
    ) -> Look | None:
        """Say how to look at the folder's repository, if the program uses git and there is one to use."""
        if argv[0] not in programs.USES_GIT:
            return None
        written = self.written(spec)
        try:
            git = trusted.find("git", env["PATH"], written).path
        except HostRefused:
            return None
        words = git_words.read(argv if argv[0] == "git" else ("git",))
        return Look(
            git=git,
            words=words,
            folder=folder,
            # The question is the gateway's own, whoever the answer is for.
            env={"HOME": self.around.home, **env},
            written=written,
            state=self.around.state if hop is None else None,
        )

    def environment(self, agent: AgentSettings, path: str) -> dict[str, str]:
        """Give all that a host command finds: a few variables of the gateway's own, and the trusted PATH."""
        # Another user has a home of their own, and no access to the gateway's agent.
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
        return tuple(dict.fromkeys([*spec.writes, *shown, f"{self.around.state}/sandboxes"]))


async def check(plan: Plan) -> None:
    """Refuse a plan whose program, folder, repository or obeyed files are not what was shown."""
    if identify(plan.binary.path) != plan.binary:
        raise HostRefused("conflict", f"{plan.binary.path} was replaced after it was shown; ask again")
    if plan.hop is not None and identify(plan.hop.ssh.path) != plan.hop.ssh:
        raise HostRefused("conflict", f"{plan.hop.ssh.path} was replaced after it was shown; ask again")
    folders.check(plan.folder)
    if programs.executes(plan.argv, plan.folder.fd) != plan.obeyed:
        raise HostRefused("conflict", f"what {plan.argv[0]} would run of {plan.folder.path} changed; ask again")
    if plan.look is not None and await plan.look.take() != plan.neutral:
        raise HostRefused("conflict", f"the repository of {plan.folder.path} changed after it was shown; ask again")
