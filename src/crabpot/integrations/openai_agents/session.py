"""A sandbox of Crabpot as a session of OpenAI Agents: commands, files, archives, ports and terminals."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agents.sandbox.errors import (
    ExecTimeoutError,
    ExecTransportError,
    ExposedPortUnavailableError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.session import SandboxSessionState
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.pty_output import collect_pty_output
from agents.sandbox.session.pty_types import (
    PTY_PROCESSES_MAX,
    PtyExecUpdate,
    allocate_pty_process_id,
    clamp_pty_yield_time_ms,
    resolve_pty_write_yield_time_ms,
)
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.types import ExecResult, ExposedPortEndpoint
from pydantic import Field

import crabpot
from crabpot.integrations.openai_agents.terminals import FAILED, Terminal

if TYPE_CHECKING:
    from agents.sandbox.types import User

    from crabpot.doors.python.results import CommandResult

_LOST = ("sandbox_lost", "sandbox_unavailable")


class CrabpotSandboxSessionState(SandboxSessionState):
    """What is needed to find a session's sandbox again: its name, and its settings."""

    type: Literal["crabpot"] = "crabpot"
    name: str
    settings: dict[str, Any] = Field(default_factory=dict)


class CrabpotSandboxSession(BaseSandboxSession):
    """A sandbox of Crabpot as a session. Its files are found again by its name until it is deleted."""

    state: CrabpotSandboxSessionState

    def __init__(self, *, state: CrabpotSandboxSessionState) -> None:
        self.state = state
        self._box: crabpot.Box | None = None
        self._terminals: dict[int, Terminal] = {}

    async def _opened(self) -> crabpot.Box:
        if self._box is None:
            # The framework executes helpers in /tmp.
            settings = {"tmp_exec": True, **self.state.settings}
            self._box = await crabpot.sandbox(name=self.state.name, **settings)
        return self._box

    async def _ensure_backend_started(self) -> None:
        box = await self._opened()
        known = await asyncio.to_thread(_is_kept, self.state)
        self._set_start_state_preserved(known and self.state.workspace_root_ready)
        await box.mkdir(self.state.manifest.root, parents=True, exist_ok=True)

    async def _shutdown_backend(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            await box.close()

    async def running(self) -> bool:
        """Return whether the sandbox is open."""
        return self._box is not None

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        box = await self._opened()
        argv = [str(word) for word in command]
        limit = None if timeout is None else min(timeout, box.time_ceiling)
        done = await box.exec(argv, cwd=self.state.manifest.root, env=await self._env(), timeout=limit, detach=True)
        if done.error is None:
            return ExecResult(stdout=done.stdout, stderr=done.stderr, exit_code=done.exit_code or 0)
        if done.error.code == "timeout":
            raise ExecTimeoutError(command=command, timeout_s=timeout)
        if done.error.code in _LOST:
            raise ExecTransportError(command=command, message=done.error.message)
        # A refusal is something that the model can read.
        said = f"{done.error.code}: {done.error.message}\n".encode()
        return ExecResult(stdout=done.stdout, stderr=done.stderr + said, exit_code=FAILED)

    async def _env(self) -> dict[str, str]:
        return dict(await self.state.manifest.environment.resolve())

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """Return the content of a file."""
        box = await self._opened()
        try:
            return io.BytesIO(await box.read(str(self.normalize_path(path))))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise WorkspaceReadNotFoundError(path=path, cause=error) from error
        except crabpot.CallFailed as error:
            raise WorkspaceArchiveReadError(path=path, cause=error) from error

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Create or replace a file."""
        payload = coerce_write_payload(path=path, data=data)
        box = await self._opened()
        try:
            await box.write(str(self.normalize_path(path, for_write=True)), payload.stream)
        except crabpot.CallFailed as error:
            raise WorkspaceArchiveWriteError(path=path, cause=error) from error

    async def persist_workspace(self) -> io.IOBase:
        """Return the workspace as a tar file, which only a sandbox ever unpacks."""
        skipped = [f"--exclude=./{path}" for path in sorted(map(str, self._persist_workspace_skip_relpaths()))]
        found = io.BytesIO()

        def take(stream: str, data: bytes) -> None:
            if stream == "stdout":
                found.write(data)

        argv = ["tar", "-C", self.state.manifest.root, "--anchored", *skipped, "-cf", "-", "."]
        box = await self._opened()
        done = await box.exec(argv, timeout=None, sink=take)
        if not done.success:
            raise WorkspaceArchiveReadError(path=Path(self.state.manifest.root), context={"reason": _reason(done)})
        found.seek(0)
        return found

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Unpack a tar file into the workspace, inside."""
        root = self.state.manifest.root
        box = await self._opened()
        await box.mkdir(root, parents=True, exist_ok=True)
        argv = ["tar", "-C", root, "--no-same-owner", "-xf", "-"]
        done = await box.exec(argv, stdin=data, timeout=None)
        if not done.success:
            raise WorkspaceArchiveWriteError(path=Path(root), context={"reason": _reason(done)})

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        box = await self._opened()
        try:
            host, _, number = (await box.port(port)).rpartition(":")
        except crabpot.CrabpotError as error:
            raise ExposedPortUnavailableError(
                port=port, exposed_ports=self.state.exposed_ports, reason="backend_unavailable", cause=error
            ) from error
        return ExposedPortEndpoint(host=host, port=int(number))

    def supports_pty(self) -> bool:
        """Return that it has terminals."""
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Start a command, and return what it says in the time that the model gives it."""
        argv = self._prepare_exec_command(*command, shell=shell, user=user)
        box, made = await self._opened(), Terminal()
        if len(self._terminals) >= PTY_PROCESSES_MAX:
            await self._end(next(iter(self._terminals)))
        number = allocate_pty_process_id(set(self._terminals))
        self._terminals[number] = made
        work = box.exec(
            argv,
            cwd=self.state.manifest.root,
            env=await self._env(),
            timeout=None,
            merged=not tty,
            tty=tty,
            stdin=made.typed() if tty else None,
            sink=made.take,
        )
        made.task = asyncio.ensure_future(work)
        made.task.add_done_callback(lambda _task: made.notify.set())
        wait_ms = clamp_pty_yield_time_ms(10_000 if yield_time_s is None else int(yield_time_s * 1000))
        return await self._update(number, made, wait_ms, max_output_tokens)

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Write to a command, and return what it says then."""
        found = self._resolve_pty_session_entry(pty_processes=self._terminals, session_id=session_id)
        if chars:
            await found.keys.put(chars.encode())
        given_ms = 250 if yield_time_s is None else int(yield_time_s * 1000)
        wait_ms = resolve_pty_write_yield_time_ms(yield_time_ms=given_ms, input_empty=not chars)
        return await self._update(session_id, found, wait_ms, max_output_tokens)

    async def _update(self, number: int, found: Terminal, wait_ms: int, tokens: int | None) -> PtyExecUpdate:
        output, count, _ = await collect_pty_output(
            output_chunks=found.output,
            output_lock=found.lock,
            output_notify=found.notify,
            is_done=found.done,
            yield_time_ms=wait_ms,
            max_output_tokens=tokens,
        )
        code = found.exit_code()
        if code is not None:
            await self._end(number)
        live = None if code is not None else number
        return PtyExecUpdate(process_id=live, output=output, exit_code=code, original_token_count=count)

    async def _end(self, number: int) -> None:
        found = self._terminals.pop(number, None)
        if found is not None and found.task is not None:
            found.task.cancel()
            await asyncio.gather(found.task, return_exceptions=True)

    async def pty_terminate_all(self) -> None:
        """End every command that goes on."""
        for number in list(self._terminals):
            await self._end(number)


def _is_kept(state: CrabpotSandboxSessionState) -> bool:
    return any(one.name == state.name for one in crabpot.named_sandboxes(state=state.settings.get("state")))


def _reason(done: CommandResult[bytes]) -> str:
    return done.error.message if done.error is not None else done.stderr.decode("utf-8", "replace")[-500:]
