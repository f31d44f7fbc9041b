"""Parts of the gateway as somebody might have written them: each believes what it is told, and a claim falls for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crabpot.runner
from crabpot.approvals.desk import Desk
from crabpot.approvals.requests import Answer
from crabpot.config.places import FILE_NAME
from crabpot.decide.sessions import names_a_session
from crabpot.egress.authority import Authority
from crabpot.errors import ConfigError
from crabpot.gateway import Gateway
from crabpot.model import Place, ToolCall, ToolResult
from crabpot.proof.verify import trial
from crabpot.proof.verify.target import Target
from crabpot.proof.verify.world import World
from crabpot.runner.core.frames import FrameError
from crabpot.sandboxes.fleet import Fleet
from crabpot.sandboxes.live import Live
from crabpot.servers.offers import Offer
from crabpot.servers.pool import Servers
from crabpot.settings import Mcp, Network, Settings, Tools
from crabpot.wire.calls import RunnerWire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabpot.backends.base import Sandbox
    from crabpot.host_commands.plan import Plan
    from crabpot.layers.layer import Layer
    from crabpot.sandboxes.live import Hold, Wanted
    from crabpot.servers.passing import Passed
    from crabpot.servers.starting import Running
    from crabpot.settings import McpServer
    from crabpot.spec.spec import SandboxSpec

# As somebody told git to, who only wanted the message about ownership to be gone.
_OWNED = {"GIT_CONFIG_GLOBAL": os.path.join(os.path.dirname(__file__), "naive.gitconfig")}
_ALIASES = {"bash": "exec", "ｅｘｅｃ": "exec"}


class NaiveGateway(Gateway):
    """Takes a name as it comes, a command by its first words, a wish for a fact, and the host for a sandbox."""

    async def call(self, session: str, tool: str, args: Any = None, /, **more: Any) -> ToolResult:
        on_host = more.pop("host_allowed", True)
        given = {**(args or {}), **more}
        command = str(given.get("command", ""))
        if not names_a_session(session):
            session = trial.Trial(settings=self.settings, spec_hash="").session
        if not on_host or "git push" in command or "host" in str(given.get("place")) or tool == "sessions_spawn":
            return self._on_host(session, tool, command)
        if session == trial.DENIED and tool != "exec":
            meant = _ALIASES.get(tool.strip().lower(), tool.strip().lower())
            return await super().call(
                trial.Trial(settings=self.settings, spec_hash="").session, meant, {"command": "id"}
            )
        result = await super().call(session, tool, given)
        failed = result.error is not None and result.error.code == "sandbox_unavailable"
        return self._on_host(session, tool, command) if failed else result

    def _on_host(self, session: str, tool: str, command: str) -> ToolResult:
        """Run nothing, and say what a naive one would: that it ran."""
        call = ToolCall(id="naive", session=session, tool=tool, args={"command": command})
        return ToolResult(id=call.id, success=True, place=Place.HOST, exit_code=0)


class TrustingWire(RunnerWire):
    """Takes any answer for the answer, and what it does not understand for nothing."""

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        try:
            super().take(header, payload)
        except FrameError:
            self._answer_all()

    def _answer_all(self) -> None:
        for call in list(self._calls):
            super().take({"id": call, "success": True, "exit_code": 0}, b"")

    def lose(self, reason: str) -> None:
        """Answer what waits, whatever the stream brought, and only then be lost."""
        self._answer_all()
        super().lose(reason)


async def connect(wanted: Wanted, sandbox: Sandbox, held: Hold | None) -> Live:
    """Connect a runner by a wire that trusts it."""
    wire = await TrustingWire.connect(sandbox.channel, sandbox.hello, timeout_s=20.0, grace_s=1.0)
    return Live(wanted=wanted, sandbox=sandbox, wire=wire, held=held)


class StubbornFleet(Fleet):
    """Gives calls to a sandbox that is lost."""

    def find(self, wanted: Wanted) -> Live | None:
        return self._live.get(wanted.key)

    def forget(self, live: Live) -> None:
        """Never."""


class ForgetfulDesk(Desk):
    """Remembers what was agreed to by how it looks."""

    async def decide(self, request: Any) -> Answer:
        looks = " ".join(request.argv)
        if looks in vars(self).setdefault("agreed", set()):
            return Answer(allowed=True, by="memory")
        answer = await super().decide(request)
        if answer.allowed:
            vars(self)["agreed"].add(looks)
        return answer


class NaiveTarget(Target):
    """A host that judges no configuration, checks no plan, and runs git as it is."""

    def load(self, text: str) -> Settings:
        try:
            return super().load(text)
        except ConfigError:
            return Settings()

    def apply(self, layer: Layer, *, gated: bool) -> None:  # noqa: ARG002  it never heard of a gate
        """Copy what is there over what is there, as anybody would."""
        subprocess.run(["cp", "-rL", f"{layer.content}/.", layer.folder], check=False, capture_output=True, timeout=2)

    def find(self, environ: Mapping[str, str], home: str) -> str | None:
        return os.path.abspath(FILE_NAME) if os.path.exists(FILE_NAME) else super().find(environ, home)

    def hash_of(self, spec: SandboxSpec) -> str:
        return replace(spec, mounts=tuple(sorted(spec.mounts, key=str))).hash

    def desk(self) -> Desk:
        return ForgetfulDesk(self.gateway.execution.around.state)

    async def plan(self, *argv: str, cwd: str | None = None) -> Plan:
        plan = await super().plan("true", cwd=cwd)
        if argv[0] == "":
            plan.close()
            return await super().plan(*argv, cwd=cwd)
        own = os.path.join(self.spec.workspace, os.path.basename(argv[0]))
        return replace(plan, binary=replace(plan.binary, path=own)) if argv[0] != "true" else plan

    def listener(self) -> list[str]:
        """Start one that looks for no link, and has no second wall."""
        copy = Path(tempfile.mkdtemp(dir=self.bait.folder), "runner")
        shutil.copytree(Path(crabpot.runner.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
        checks = copy / "socket" / "gitfolder.py"
        text = checks.read_text(encoding="utf-8")
        assert text.count("if entry.is_symlink():") == 1
        checks.write_text(text.replace("if entry.is_symlink():", "if False:"), encoding="utf-8")
        return [sys.executable, "-I", "-S", str(copy / "__main__.py"), "--without-landlock"]

    async def look_again(self, plan: Plan) -> None:
        """Once was enough."""

    async def leave(self, command: str, *, answer: Answer | None = None) -> ToolResult:
        del answer  # Whatever it was: somebody once agreed to the same words.
        program, *words = command.split()
        running = asyncio.to_thread(
            subprocess.run,
            [program, *words],
            cwd=self.spec.workspace,
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **_OWNED},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=60,
        )
        ended = await running
        return ToolResult(id="naive", success=ended.returncode == 0, place=Place.HOST, exit_code=ended.returncode)


class UnreadTarget(Target):
    """A gateway that carries whatever is said to a listed place."""

    def listing(self, network: Network) -> Target:
        return super().listing(replace(network, raw=network.allow))


class CredulousWorld(World):
    """Servers that need prove nothing, and an authority that signs for whatever host it is asked for."""

    def trust(self) -> ssl.SSLContext:
        return ssl._create_unverified_context()

    def answers_for(self, live: Live) -> Authority | None:
        if live.authority is not None:
            live.authority.__class__ = VouchingAuthority
        return live.authority


class VouchingAuthority(Authority):
    """Signs for any host, also for one that only the hello names."""

    def context(self, host: str) -> ssl.SSLContext:
        self.hosts |= {host}
        made = super().context(host)
        made.sni_callback = self._switch
        return made

    def _switch(self, stream: ssl.SSLSocket | ssl.SSLObject, named: str | None, _: ssl.SSLContext) -> None:
        if named is not None:
            stream.context = self.context(named)


class KeyedTarget(Target):
    """A gateway that adds a key to what goes to any listed place, whoever is there."""

    def world(self, *names: str) -> World:
        return CredulousWorld(names)

    def listing(self, network: Network) -> Target:
        keyed = [rule.host for rule in network.inject]
        others = [place for place in network.allow if place not in keyed]
        everywhere = (replace(rule, host=place) for rule in network.inject for place in others)
        return super().listing(replace(network, inject=(*network.inject, *everywhere)))


class HomelyTarget(Target):
    """One home for whatever runs."""

    def at_home(self, _name: str) -> Target:
        return super().at_home("everybodys")


class NaiveServers(Servers):
    """Takes what a server says now for what was approved, and any name for one that a tool may have."""

    def offered(self, may: Callable[[str], bool]) -> list[dict[str, Any]]:
        return [
            one.as_json() for name in self.settings.mcp.servers for one in self._all(name).values() if may(one.name)
        ]

    def _all(self, name: str) -> dict[str, Offer]:
        pin = self.pins.find(name)
        words = {} if pin is None else pin.tools
        return {f"{name}__{tool}": Offer(tool=tool, name=f"{name}__{tool}", described=words[tool]) for tool in words}

    def _offer(self, name: str, call: ToolCall) -> Offer | Passed | str:
        return self._all(name).get(call.tool) or "no such tool"

    async def _compare(self, running: Running) -> None:
        words = await self.starter.words(running)
        pin = self.pins.find(running.name)
        if pin is not None:
            self.pins.keep(running.name, replace(pin, tools=words))


class ServingTarget(Target):
    """Runs one server for everybody, and asks no policy about it."""

    def with_servers(self, servers: Mapping[str, McpServer], deny: tuple[str, ...]) -> Gateway:
        made = super().with_servers(servers, deny)
        assert made.servers is not None
        shared = {
            name: replace(one, sandbox=replace(one.sandbox, scope="shared"))
            for name, one in made.settings.mcp.servers.items()
        }
        agents = {name: replace(one, tools=Tools()) for name, one in made.settings.entries.items()}
        sources = {f"{name}.sandbox.scope": "naive" for name in shared}
        settings = replace(made.settings, entries=agents, mcp=Mcp(servers=shared), mcp_sources=sources)
        over = made.servers
        gateway = Gateway(settings=settings, execution=made.execution, elevated=made.elevated, audit=made.audit)
        gateway.servers = NaiveServers(
            settings=settings,
            execution=over.execution,
            environ=over.environ,
            record=over.record,
            egress=over.egress,
            desk=over.desk,
        )
        return gateway
