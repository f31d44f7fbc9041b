"""A live sandbox with a repository in it, remotes on the host, and git commands taken all the way between them."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.app import start
from crabpot.decide.placement import Placement
from crabpot.host_commands import trusted
from crabpot.host_commands.git import operation, relay
from crabpot.host_commands.git.clock import Clock
from crabpot.host_commands.git.inside import Inside
from crabpot.host_commands.git.outside import Bounds
from crabpot.host_commands.git.prepared import GitContext
from crabpot.model import Place
from tests.support.backends import engine_host
from tests.support.git import QUIET, host_git
from tests.support.suites import take_over

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

SESSION = "agent:main:x"


class Pot:
    """One sandbox, its workspace and a folder for remotes."""

    def __init__(self, gateway: Any, folder: Path, wire: Any) -> None:
        self.gateway, self.folder, self.wire = gateway, folder, wire
        self.workspace, self.state = folder / "ws", folder / "state"
        self.env = {**QUIET, "HOME": str(folder)}
        self.bounds = Bounds(disk=1 << 30, memory=2 << 30)

    async def sh(self, command: str, **args: Any) -> str:
        """Run shell text as the agent."""
        result = await self.gateway.call(SESSION, "exec", command=command, **{"timeout": 60, **args})
        assert result.success, (result.stdout, result.stderr, result.error)
        return str(result.stdout).strip()

    async def sows(self, more: str = "") -> str:
        """Make a repository with one commit, as the agent."""
        await self.sh(
            "git init -q -b main . && git config user.name n && git config user.email n@x && echo 1 > f && git add f"
            f" && git commit -qm one {more}"
        )
        return await self.sh("git rev-parse HEAD")

    def remote(self, name: str = "remote.git") -> Path:
        """Make a bare repository of the operator's."""
        made = self.folder / "operator" / name
        made.mkdir(parents=True)
        host_git("init", "-q", "--bare", "-b", "main", made)
        return made

    def context(self, cwd: str | None = None) -> GitContext:
        clock = Clock(limit_s=60)
        return GitContext(
            state=str(self.state),
            inside=Inside(wire=self.wire, cwd=cwd, clock=clock),
            git=trusted.find("git", "/usr/bin:/bin", ()),
            env=self.env,
            root=str(self.workspace),
            folder=str(self.workspace),
            written=(str(self.workspace), str(self.state / "sandboxes")),
            secrets=(str(self.state), str(self.folder / ".password-store")),
            bounds=self.bounds,
            clock=clock,
        )

    async def prepare(self, *words: str, cwd: str | None = None) -> Any:
        found = operation.read(("git", *words))
        assert found is not None
        return await relay.prepare(found, self.context(cwd))

    async def git(self, *words: str, cwd: str | None = None) -> Any:
        """Take a command all the way."""
        prepared = await self.prepare(*words, cwd=cwd)
        return await prepared.run(timeout_s=60, output_limit=1 << 16)

    async def done(self, *words: str, cwd: str | None = None) -> Any:
        """Take one that works."""
        reply = await self.git(*words, cwd=cwd)
        assert reply.success, (reply.exit_code, reply.stdout, reply.stderr)
        return reply


@asynccontextmanager
async def opened(folder: Path, backend: str) -> AsyncIterator[Pot]:
    workspace = folder / "ws"
    workspace.mkdir(mode=0o755, exist_ok=True)
    if os.geteuid() == 0:
        shutil.chown(workspace, 1000, 1000)
    environ = {**QUIET, "USER": "x", "DOCKER_HOST": os.environ.get("DOCKER_HOST", "")}
    take_over(str(folder / "state"))
    app = start(config=None, state=str(folder / "state"), environ=environ)
    gateway = app.gateway(f"""{{
        agents: {{defaults: {{workspace: "{workspace}", sandbox: {{ workspace: "rw", backend: "{backend}" }} }} }},
    }}""")
    try:
        agent = gateway.settings.agent("main")
        live = await gateway.execution.acquire(agent, Placement(where=Place.SANDBOX, scope_key=SESSION))
        yield Pot(gateway, folder, live.wire)
    finally:
        await gateway.close()


@pytest.fixture
def open_pot(folder: Path) -> Callable[[], Any]:
    return lambda: opened(folder, "bubblewrap")


@pytest.fixture(params=["bubblewrap", "docker"])
def any_pot(request: pytest.FixtureRequest, folder: Path) -> Callable[[], Any]:
    if request.param == "docker":
        engine_host()
    return lambda: opened(folder, request.param)


@pytest.fixture
def git() -> Any:
    return host_git
