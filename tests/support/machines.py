"""A host with one agent whose commands may leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.decide.elevation import ElevationRule
from crabpot.host_commands import run as elevated
from crabpot.host_commands.host import Host
from crabpot.settings import AgentSettings, Elevated, Sandbox, Settings, Tools
from crabpot.spec.binds import Surroundings
from crabpot.spec.build import build
from tests.support.runners import OUTPUT

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.host_commands.plan import Plan
    from crabpot.spec.spec import SandboxSpec

EXPOSED = {"HOME": "/home/x", "USER": "x", "LANG": "C.UTF-8", "SECRET": "s", "TOKEN": "t", "PATH": "/evil"}


class Machine:
    """A host with one agent whose commands may leave: its workspace, and a trusted folder of programs."""

    def __init__(self, folder: Path, **sandbox: Any) -> None:
        self.workspace, self.programs, self.home = folder / "ws", folder / "programs", folder / "home"
        for made in (self.workspace, self.programs, self.home):
            made.mkdir(mode=0o755, exist_ok=True)
        self.agent = self.settled(f"{self.programs}:/usr/bin:/bin", **sandbox)
        self.around = Surroundings(home=str(self.home), state=str(folder / "state"))
        self.host = Host(settings=Settings(defaults=self.agent), around=self.around, environ=dict(EXPOSED))
        self._plans: list[Plan] = []

    def settled(self, path: str, **sandbox: Any) -> AgentSettings:
        tools = Tools(elevated=Elevated(enabled=True, path=path, pass_env=("TOKEN", "NONE")))
        shown = Sandbox(**{"workspace": "rw", **sandbox})
        return AgentSettings(id="main", workspace=str(self.workspace), sandbox=shown, tools=tools)

    @property
    def spec(self) -> SandboxSpec:
        return build(self.agent, "agent:main", self.around)

    def script(self, name: str, text: str) -> Path:
        """Put a program into the trusted folder."""
        made = self.programs / name
        made.write_text(text)
        made.chmod(0o755)
        return made

    async def plan(self, *argv: str, cwd: str | None = None, **way: Any) -> Plan:
        wanted = {"pattern": f"{argv[0] if argv else ''} *", "source": "tools.elevated.patterns[0]", **way}
        made = await self.host.prepare(
            argv, self.agent, self.spec, ElevationRule(approval=True, enabled=True, **wanted), cwd=cwd
        )
        self._plans.append(made)
        return made

    async def run(
        self, *argv: str, cwd: str | None = None, timeout_s: float = 20, way: dict[str, Any] | None = None, **more: Any
    ) -> Any:
        plan = await self.plan(*argv, cwd=cwd, **(way or {}))
        return await elevated.run(plan, timeout_s=timeout_s, output_limit=OUTPUT, **more)

    def close(self) -> None:
        for plan in self._plans:
            plan.close()
