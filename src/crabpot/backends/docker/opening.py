"""One opening: from a spec to a verified container whose runner answers, or to nothing at all."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from crabpot.backends.docker import inspection, naming, remedy, render
from crabpot.backends.docker.counters import Counters
from crabpot.backends.docker.demultiplexer import Demultiplexer
from crabpot.backends.docker.engine import EngineError
from crabpot.backends.docker.removal import made_or_removed, remove
from crabpot.backends.docker.sandbox import DockerSandbox
from crabpot.errors import SandboxError, SandboxUnavailable
from crabpot.wire.calls import RunnerWire
from crabpot.wire.channel import Channel

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from crabpot.backends.docker.engine import Engine
    from crabpot.backends.docker.facts import Facts
    from crabpot.backends.docker.render import ContainerPlan
    from crabpot.backends.linux.held_files import Held
    from crabpot.spec.spec import SandboxSpec

_START_S = 120.0
_GREET_S = 20.0
_LOOKS, _LOOK_S = 50, 0.01
_LONGEST_OUTPUT = 2000


class Opening:
    """An opening under way."""

    def __init__(self, engine: Engine, facts: Facts, spec: SandboxSpec, hello: Mapping[str, Any]) -> None:
        self._engine = engine
        self._facts = facts
        self._spec = spec
        self._hello = hello
        self._container = ""
        self._stream: socket.socket | None = None

    async def run(self, plan: ContainerPlan, held: list[Held]) -> DockerSandbox:
        """Open the sandbox, or raise SandboxUnavailable and leave nothing behind, cancelled or not."""
        try:
            return await self._run(plan, held)
        except BaseException as error:
            if self._stream is not None:
                self._stream.close()
            if self._container:
                await asyncio.shield(remove(self._engine, self._container))
            if isinstance(error, EngineError):
                raise remedy.explain(error, self._spec) from None
            raise

    async def _run(self, plan: ContainerPlan, held: list[Held]) -> DockerSandbox:
        engine = self._engine
        body = render.create_body(self._spec, plan)
        self._container = await made_or_removed(engine, naming.create(engine, self._spec.name, body))
        self._stream = await engine.attach(self._container)
        await engine.post(f"/containers/{self._container}/start", timeout_s=_START_S)
        pid = await self._look(plan, held)
        demultiplexer = Demultiplexer()
        ready = await self._introduce(self._stream, demultiplexer)
        channel = Channel(sock=self._stream, decode=demultiplexer, ready=ready)
        return DockerSandbox(
            engine, self._container, channel, self._hello, counters=Counters(pid), limits=self._spec.limits
        )

    async def _look(self, plan: ContainerPlan, held: list[Held]) -> int:
        """Check the container from outside, where nothing inside can lie, before its runner is greeted."""
        if not self._facts.same_kernel:
            return 0
        said = await self._engine.get(f"/containers/{self._container}/json")
        pid = int(said["State"]["Pid"])
        if pid and self._spec.docker.runtime is None:
            uid = None if self._facts.remapped else plan.user.uid
            wrong = inspection.problems(pid, uid, held)
            for _ in range(_LOOKS):
                # The engine reports "started" a moment before its helper has become the container's program, and until
                # then an ordinary user cannot see what is mounted. Nothing runs in it before this check passes.
                if not wrong:
                    break
                await asyncio.sleep(_LOOK_S)
                wrong = inspection.problems(pid, uid, held)
            if wrong and os.path.exists(f"/proc/{pid}"):
                raise SandboxUnavailable(
                    f"the container is not what it should be ({'; '.join(wrong)}); nothing runs in it"
                )
        return pid

    async def _introduce(self, stream: socket.socket, demultiplexer: Demultiplexer) -> dict[str, Any]:
        """Greet the runner and run the configured set-up, on a second handle of the stream, which is then closed."""
        try:
            first = Channel(sock=stream.dup(), decode=demultiplexer)
            wire = await RunnerWire.connect(first, self._hello, timeout_s=_GREET_S)
            try:
                if self._spec.docker.setup is not None:
                    await self._set_up(wire, self._spec.docker.setup)
            finally:
                wire.lose("the introduction is over")
                await asyncio.sleep(0)  # The handle is closed in the loop's next iteration.
        except SandboxError as error:
            said = demultiplexer.errors()
            raise SandboxUnavailable(f"{error}{f'; it said: {said}' if said else ''}") from None
        return wire.ready

    async def _set_up(self, wire: RunnerWire, command: str) -> None:
        done = await wire.call("exec", {"command": command}, timeout_s=self._spec.limits.time_ceiling)
        if not done.success:
            why = done.error[1] if done.error else f"it ended with {done.exit_code}"
            output = f"{done.stdout}{done.stderr}".strip()[-_LONGEST_OUTPUT:]
            raise SandboxUnavailable(f"docker.setup failed: {why}{f': {output}' if output else ''}")
