"""Tests that are coroutines, what asyncio itself complained about, and runners: real ones and doubles of them."""

from __future__ import annotations

import asyncio
import inspect
import socket
import tempfile
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.app import App
from crabpot.approvals.desk import Desk
from crabpot.audit.store import AuditLog
from crabpot.backends.host.backend import open_on_host
from crabpot.backends.registry import Registry
from crabpot.config.load import from_text
from crabpot.decide.elevation import Way
from crabpot.errors import SandboxLost
from crabpot.gateway import Gateway
from crabpot.host_commands import run as elevated
from crabpot.host_commands.departure import Departure
from crabpot.host_commands.plan import Host
from crabpot.host_commands.shims import HostCommands
from crabpot.runner.core.frames import FrameReader, encode
from crabpot.sandboxes.execution import Execution
from crabpot.sandboxes.fleet import Fleet
from crabpot.settings import AgentSettings, Elevated, Limits, Sandbox, Settings, Size, Tools
from crabpot.spec.binds import Surroundings
from crabpot.spec.build import build
from crabpot.wire.calls import RunnerWire
from crabpot.wire.channel import Channel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from crabpot.host_commands.plan import Plan
    from crabpot.spec.spec import SandboxSpec

PATIENCE_S = 240.0
OUTPUT = 64 * 1024
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/", "USER": "agent", "LANG": "C.UTF-8"}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine. What asyncio would only have logged fails it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    complaints: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(PATIENCE_S):
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})

    asyncio.run(bounded())
    assert complaints == []
    return True


async def until(condition: Callable[[], Any], within_s: float = 20.0) -> Any:
    """Wait for a condition, at most so long, and give what it gave."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.002)
    return found


class Peer:
    """The runner's end of a wire, for a double that says whatever it likes on it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._reader = FrameReader()
        self._frames: list[tuple[dict[str, Any], bytes]] = []

    def take(self, op: str | None = None) -> tuple[dict[str, Any], bytes]:
        """Wait for the next frame of a kind; calls have none."""
        while True:
            header, payload = self.take_any()
            if header.get("op") == op:
                return header, payload

    def take_any(self) -> tuple[dict[str, Any], bytes]:
        """Wait for the next frame."""
        while not self._frames:
            data = self.sock.recv(1 << 20)
            if not data:
                raise ConnectionError("the gateway cut it off")
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    def send(self, header: Any, payload: bytes = b"") -> None:
        self.sock.sendall(encode(header, payload))

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def greet(self) -> None:
        self.take("hello")
        self.send({"op": "ready", "protocol": 1, "pid": 1, "python": "3.11.2", "uid": 1})


class Double:
    """A sandbox whose runner is a thread that follows a script. It stays until the gateway has cut it off."""

    def __init__(self, script: Callable[[Peer], None], *, output: int = OUTPUT) -> None:
        ours, self._theirs = socket.socketpair()
        ours.setblocking(False)
        self.channel = Channel(sock=ours)
        self.hello: dict[str, Any] = {"op": "hello", "limits": {"output": output}}
        self.script = script
        self.closed = 0
        self.pid = None
        self.death: tuple[str, str] | None = None
        self.frozen: list[bool] = []
        self.unfreezable = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with self._theirs, suppress(OSError):
            self.script(Peer(self._theirs))
            while self._theirs.recv(1 << 20):
                pass

    async def close(self) -> None:
        self.closed += 1
        self.channel.sock.close()
        await asyncio.to_thread(self.thread.join, 20)
        assert not self.thread.is_alive()

    async def freeze(self) -> None:
        self.frozen.append(True)
        if self.unfreezable:
            raise SandboxLost("it does not freeze")

    async def thaw(self) -> None:
        self.frozen.append(False)

    async def cause_of_death(self) -> tuple[str, str] | None:
        return self.death


def answering(peer: Peer) -> None:
    """The script of an honest runner that has one answer to everything."""
    peer.greet()
    answering_after_greeting(peer)


def answering_after_greeting(peer: Peer) -> None:
    """What follows of it."""
    while True:
        header, _ = peer.take()
        peer.send({"id": header["id"], "success": True, "stdout": "fine\n", "stderr": "", "exit_code": 0})


@asynccontextmanager
async def connected(opened: Any, *, grace_s: float = 5.0, timeout_s: float = 20.0) -> AsyncIterator[RunnerWire]:
    """Connect a wire to a sandbox, and leave neither."""
    try:
        wire = await RunnerWire.connect(opened.channel, opened.hello, timeout_s=timeout_s, grace_s=grace_s)
        try:
            yield wire
        finally:
            wire.lose("the test ended")
    finally:
        await opened.close()


@asynccontextmanager
async def real_runner(folder: Path, *, output: int = OUTPUT, grace_s: float = 20.0) -> AsyncIterator[RunnerWire]:
    """Connect a wire to the real runner, unconfined."""
    opened = await open_on_host(str(folder), Limits(output=Size(output)), ENV)
    async with connected(opened, grace_s=grace_s) as wire:
        yield wire


class Unconfined:
    """A backend that starts the real runner and confines nothing: what is tested here is who talks to it."""

    name = "bubblewrap"

    def __init__(self) -> None:
        self.opened: list[Any] = []
        self.death: tuple[str, str] | None = None

    async def _cause_of_death(self) -> tuple[str, str] | None:
        return self.death

    async def probe(self, _spec: Any) -> tuple[()]:
        return ()

    async def open(self, spec: Any) -> Any:
        made = await open_on_host(spec.workspace, spec.limits, ENV)
        made.cause_of_death = self._cause_of_death  # type: ignore[method-assign]
        self.opened.append(made)
        return made


class Scripted(Unconfined):
    """A backend whose every sandbox follows the script."""

    def __init__(self, script: Callable[[Peer], None]) -> None:
        super().__init__()
        self.script = script

    async def open(self, _spec: Any) -> Any:
        made = Double(self.script)
        self.opened.append(made)
        return made


class Bench:
    """A gateway over a configuration, with a double for its backend, in folders of its own."""

    def __init__(self, folder: Path, text: str, backend: Any, *, grace_s: float = 5.0) -> None:
        self.folder = folder
        self.state = str(folder / "state")
        self.workspace = folder / "ws"
        self.backend = backend
        around = Surroundings(home=str(folder / "home"), state=self.state, config=str(folder / "crabpot.json5"))
        settings = from_text(text.replace("WS", str(self.workspace)), around.config, around, {})
        self.audit = AuditLog(self.state)
        self.audit.open()
        registry = Registry({"bubblewrap": backend})
        fleet = Fleet(grace_s=grace_s, limits=settings.gateway)
        self.execution = Execution(around=around, registry=registry, environ=ENV, fleet=fleet)
        self.desk = Desk(self.state)
        host = Host(settings=settings, around=around, environ=ENV)
        departure = Departure(desk=self.desk, audit=self.audit, execution=self.execution, host=lambda: host)
        self.execution.answering = HostCommands(departure=departure).answers
        self.gateway = Gateway(settings=settings, execution=self.execution, departure=departure, audit=self.audit)
        self.app = App(config=None, around=around, environ=ENV)


ON_HOST = '{agents: {defaults: {workspace: "WS", sandbox: {mode: "off"}}}}'
SANDBOXED = '{agents: {defaults: {workspace: "WS", sandbox: {mode: "all"}}}}'


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
        made = await self.host.prepare(argv, self.agent, self.spec, Way(approval=True, enabled=True, **wanted), cwd=cwd)
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


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """What tests in every folder build with."""
    return SimpleNamespace(
        ENV=ENV,
        OUTPUT=OUTPUT,
        ON_HOST=ON_HOST,
        SANDBOXED=SANDBOXED,
        Double=Double,
        Machine=Machine,
        Scripted=Scripted,
        Unconfined=Unconfined,
        answering=answering,
        answering_after_greeting=answering_after_greeting,
        connected=connected,
        real_runner=real_runner,
        replace=replace,
        until=until,
    )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that every user of the machine can reach and write, as tmp_path is not."""
    with tempfile.TemporaryDirectory(prefix="crabpot-test-") as made:
        folder = Path(made)
        folder.chmod(0o777)
        yield folder


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Any]:
    """Give a gateway for as long as a block lasts."""

    @asynccontextmanager
    async def make(text: str = SANDBOXED, backend: Any = None, *, grace_s: float = 5.0) -> AsyncIterator[Bench]:
        made = Bench(tmp_path, text, backend or Unconfined(), grace_s=grace_s)
        try:
            yield made
        finally:
            await made.gateway.close()

    return make


@pytest.fixture
def machine_with(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Give a host for elevated commands, of an agent with these sandbox settings."""
    made: list[Machine] = []

    def make(**sandbox: Any) -> Machine:
        made.append(Machine(tmp_path, **sandbox))
        return made[-1]

    yield make
    for machine in made:
        machine.close()


@pytest.fixture
def machine(machine_with: Callable[..., Machine]) -> Machine:
    """Give one whose agent has its workspace rw."""
    return machine_with()
