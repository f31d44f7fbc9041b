"""The code interpreter's kernels: a Python program inside each context keeps what earlier code has defined."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from crabpot.doors.e2b.lines import Lines
from crabpot.doors.e2b.processes import processes_of
from crabpot.doors.e2b.refusals import RpcError
from crabpot.doors.http.access.refusals import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from crabpot.doors.e2b.processes import Listener, Process
    from crabpot.doors.e2b.sandboxes import Sandbox, Sandboxes

_MOST = 32
# A picture in base64 is one line.
_LONGEST_LINE = 32 * 1024 * 1024
_LANGUAGES = ("python", "python3")
_RESULT = ("text", "html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript", "is_main_result")
_FIELDS = {
    "stdout": ("text", "timestamp"),
    "stderr": ("text", "timestamp"),
    "result": _RESULT,
    "error": ("name", "value", "traceback"),
    "number_of_executions": ("execution_count",),
}


@dataclass(slots=True, kw_only=True, eq=False)
class Kernel:
    """One context: its program, started with its first code."""

    id: str
    cwd: str
    process: Process | None = None
    listener: Listener | None = None
    lines: Lines = field(default_factory=lambda: Lines(_LONGEST_LINE))
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def as_json(self) -> dict[str, str]:
        """Describe it as the API does."""
        return {"id": self.id, "language": "python", "cwd": self.cwd}

    def end(self) -> None:
        """End its program; the next code starts another."""
        if self.process is not None and self.listener is not None:
            self.process.kill()
            self.process.leave(self.listener)
        self.process = self.listener = None
        self.lines = Lines(_LONGEST_LINE)


class Kernels:
    """The contexts of one sandbox. One without a name is there from the start."""

    def __init__(self, sandboxes: Sandboxes, sandbox: Sandbox) -> None:
        self._sandboxes = sandboxes
        self._sandbox = sandbox
        self._all: dict[str, Kernel] = {}
        self._default: Kernel | None = None

    def add(self, *, language: str | None, cwd: str | None = None) -> Kernel:
        """Add a context."""
        if language not in (None, *_LANGUAGES):
            raise Refusal(400, "invalid", f"language {str(language)[:64]!a} is not offered; python is")
        if len(self._all) >= _MOST:
            raise Refusal(429, "too_many", f"more than {_MOST} contexts; remove some")
        made = Kernel(id=secrets.token_hex(16), cwd=cwd or self._sandboxes.home(self._sandbox))
        self._all[made.id] = made
        return made

    def find(self, identity: str | None, language: str | None) -> Kernel:
        """Return a context by its id, or the one without a name."""
        if identity is None:
            if self._default is None or self._default.id not in self._all:
                self._default = self.add(language=language)
            elif language not in (None, *_LANGUAGES):
                raise Refusal(400, "invalid", f"language {str(language)[:64]!a} is not offered; python is")
            return self._default
        if identity not in self._all:
            raise Refusal(404, "not_found", f"context {identity[:64]!a} not found")
        return self._all[identity]

    def listed(self) -> list[Kernel]:
        """List the contexts."""
        return list(self._all.values())

    def remove(self, identity: str) -> None:
        """End a context."""
        self.find(identity, None).end()
        del self._all[identity]

    async def run(self, kernel: Kernel, code: str, envs: dict[str, str]) -> AsyncGenerator[dict[str, Any], None]:
        """Run code, and yield what it outputs. A caller that leaves ends it."""
        async with kernel.turn:
            process, listener = self._started(kernel)
            assert process.input is not None
            await process.input.write(json.dumps({"code": code, "envs": envs}).encode() + b"\n")
            done = False
            try:
                while not done:
                    event = await listener.next(None)
                    if event is None:
                        yield self._lost(kernel, process)
                        return
                    for line in kernel.lines.take(event[1]) if event[0] == "stdout" else ():
                        done = done or line.get("type") == "done"
                        if (output := _checked(line)) is not None:
                            yield output
            finally:
                # Code that nobody waits for goes, and the kernel with it: what else it would say is nobody's.
                if not done and kernel.process is process:
                    kernel.end()

    def _started(self, kernel: Kernel) -> tuple[Process, Listener]:
        task = None if kernel.process is None else kernel.process.task
        if kernel.process is None or kernel.listener is None or task is None or task.done():
            kernel.end()
            program = files("crabpot.doors.e2b.inside").joinpath("kernel.py").read_text()
            processes = processes_of(self._sandboxes, self._sandbox)
            argv = ["python3", "-u", "-c", program]
            kernel.process = processes.start(
                argv,
                cwd=None if kernel.cwd == self._sandboxes.home(self._sandbox) else kernel.cwd,
                envs={},
                with_input=True,
                tag=f"kernel-{kernel.id}",
            )
            kernel.listener = kernel.process.listen()
        return kernel.process, kernel.listener

    def _lost(self, kernel: Kernel, process: Process) -> dict[str, Any]:
        ended = process.ended()
        kernel.end()
        said = ended.message if isinstance(ended, RpcError) else f"the kernel ended: {ended['status']}"
        return {"type": "error", "name": "KernelDied", "value": said, "traceback": said}


def _checked(line: dict[str, Any]) -> dict[str, Any] | None:
    """Return an output with nothing in it but what the API has, or None."""
    kind = line.get("type")
    wanted = _FIELDS.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        return None
    found = {name: line[name] for name in wanted if name in line}
    if kind in ("stdout", "stderr", "error") and not all(isinstance(found.get(name), str) for name in wanted[:1]):
        return None
    return {"type": kind, **found}


def kernels_of(sandboxes: Sandboxes, sandbox: Sandbox) -> Kernels:
    """Return the contexts of a sandbox."""
    found = sandbox.parts.get("kernels")
    if found is None:
        found = sandbox.parts["kernels"] = Kernels(sandboxes, sandbox)
    assert isinstance(found, Kernels)
    return found
