"""Gateways and sandboxes over a real engine, and what the tests ask that engine behind their backs."""

from __future__ import annotations

import io
import json
import os
import socket
import tarfile
from contextlib import asynccontextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crabpot.approvals.desk import Desk
from crabpot.audit.store import AuditLog
from crabpot.backends.docker import owner
from crabpot.backends.docker.backend import Docker
from crabpot.backends.registry import Registry
from crabpot.config.load import from_text
from crabpot.gateway import Gateway
from crabpot.host_commands.elevated import ElevatedCommands
from crabpot.host_commands.host import Host
from crabpot.sandboxes.execution import Execution
from crabpot.spec.binds import Surroundings
from crabpot.wire.calls import RunnerWire
from tests.support.specs import make_docker_spec
from tests.support.suites import take_over
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.backends.docker.engine import Engine
    from crabpot.backends.docker.sandbox import DockerSandbox
    from crabpot.wire.replies import Reply


def backend(engine: Engine, folder: Path) -> Docker:
    """Return the backend with a state of its own."""
    state = str(folder / "state")
    take_over(state)
    return Docker(state=state, environ={"DOCKER_HOST": f"unix://{engine.path}"}, home=str(folder / "home"))


def spec_in(folder: Path, **changes: Any) -> Any:
    """Describe a sandbox whose name and private folder no other test has."""
    name = f"crabpot-test-{os.urandom(4).hex()}"
    return make_docker_spec(**{"name": name, "workspace": f"{folder}/state/sandboxes/{name}", **changes})


class Inside:
    """A sandbox and the wire to it."""

    def __init__(self, box: DockerSandbox, wire: RunnerWire) -> None:
        self.box = box
        self.wire = wire

    async def run(self, command: str, timeout_s: float = 20.0, **args: Any) -> Reply:
        """Run shell text."""
        return await self.wire.call("exec", {"command": command, **args}, timeout_s=timeout_s)

    async def out(self, command: str) -> str:
        """Run shell text, and return what it printed on both streams."""
        done = await self.run(command)
        return f"{done.stdout}{done.stderr}"


@asynccontextmanager
async def opened(engine: Engine, folder: Path, **changes: Any) -> AsyncIterator[Inside]:
    """Open a sandbox, and close it at the end."""
    box = await backend(engine, folder).open(spec_in(folder, **changes))
    try:
        wire = await RunnerWire.connect(box.channel, box.hello, timeout_s=20.0)
        try:
            yield Inside(box, wire)
        finally:
            wire.lose("the test ended")
    finally:
        await box.close()


def gateway(folder: Path, host: str, **sandbox: Any) -> Gateway:
    """Return a gateway whose every session is in a container."""
    state = str(folder / "state")
    take_over(state)
    around = Surroundings(home=str(folder / "home"), state=state)
    text = json.dumps(
        {"agents": {"defaults": {"workspace": str(folder / "agent"), "sandbox": {"backend": "docker", **sandbox}}}}
    )
    audit = AuditLog(state)
    audit.open()
    registry = Registry({"docker": Docker(state=state, environ={"DOCKER_HOST": host}, home=around.home)})
    execution = Execution(around=around, registry=registry, environ={})
    settings = from_text(text, None, around, {})
    places = Host(settings=settings, around=around, environ={})
    elevated = ElevatedCommands(desk=Desk(state), audit=audit, execution=execution, host=lambda: places)
    return Gateway(settings=settings, execution=execution, elevated=elevated, audit=audit)


async def containers(engine: Engine, label: str) -> list[dict[str, Any]]:
    """List what the engine has with a label, dead or alive."""
    filters = json.dumps({"label": [label]})
    listed: list[dict[str, Any]] = await engine.get("/containers/json", {"all": "1", "filters": filters})
    return listed


async def left_of(engine: Engine, folder: Path) -> list[str]:
    """Name what is left of the gateways over a state."""
    found = await containers(engine, f"{owner.STATE}={owner.state_label(str(folder / 'state'))}")
    # One that is removed from two sides at once may stay in the engine's list, without a name, and be nowhere else.
    return [one["Names"][0] for one in found if one["Names"]]


async def nothing_left(engine: Engine, folder: Path) -> None:
    """See that nothing is left; an engine lists what it removed for a moment longer."""

    async def empty() -> bool:
        return not await left_of(engine, folder)

    await until(empty)


def watchdogs_of(pid: int) -> list[int]:
    """Find the watchdogs of a process."""
    return [one for one, words in _watchdogs() if words[-1].startswith(b"%d:" % pid)]


def watchdogs_over(engine: Engine) -> list[tuple[int, int]]:
    """Find the watchdogs over an engine, each with the process that it watches."""
    return [
        (one, int(words[-1].partition(b":")[0])) for one, words in _watchdogs() if os.fsencode(engine.path) in words
    ]


def _watchdogs() -> list[tuple[int, list[bytes]]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                words = Path(f"/proc/{name}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                if any(word.endswith(b"watchdog.py") for word in words):
                    found.append((int(name), words))
    return found


@asynccontextmanager
async def derived_image(engine: Engine, command: str, *changes: str) -> AsyncIterator[str]:
    """Return an image made from the tests' own by running a command in it as root."""
    base = (await engine.get("/images/crabpot-sandbox:latest/json"))["Id"]
    made = await engine.post("/containers/create", body={"Image": base, "User": "0", "Cmd": ["/bin/sh", "-c", command]})
    name = f"crabpot-test-{os.urandom(4).hex()}"
    try:
        await engine.post(f"/containers/{made['Id']}/start")
        assert (await engine.post(f"/containers/{made['Id']}/wait"))["StatusCode"] == 0
        written = {"changes": "\n".join(changes)} if changes else {}
        await engine.post("/commit", {"container": made["Id"], "repo": name, **written}, body={})
        yield name
        await engine.delete(f"/images/{name}")
    finally:
        await engine.delete(f"/containers/{made['Id']}", {"force": "1"})


def make_image(engine: Engine, name: str, files: dict[str, bytes], *changes: str) -> None:
    """Make an image out of a few files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    query = "".join(f"&changes={change.replace(' ', '%20')}" for change in changes)
    connection = HTTPConnection("docker", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(engine.path)
    connection.request("POST", f"/v1.41/images/create?fromSrc=-&repo={name}{query}", body=packed.getvalue())
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status == 200, said
