"""Pydantic AI: `Agent(…, capabilities=[CrabpotSandbox()])` gives every run a workspace in a sandbox.

The environment is a named sandbox: its ref, in the message history, names it, and a later run, of any program,
continues in its files.
"""

from __future__ import annotations

import asyncio
import posixpath
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from crabpot.integrations.versions import require

require("pydantic-ai-slim", "2.60", "3", extra="pydantic-ai")

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import AgentDepsT, RunContext
from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    WorkspaceBackend,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.protocol import validate_timeout

import crabpot
from crabpot.doors.python.results import raise_failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.workspaces import WorkspaceCommand

__all__ = ["CrabpotSandbox", "CrabpotWorkspace"]

PROVIDER = "crabpot"
_NO_SUCH_PROGRAM, _NOT_EXECUTABLE = 127, 126
# An exception would end the run; this the model reads.
_REFUSED = ("denied", "approval_denied", "approval_timeout")


class CrabpotWorkspace:
    """A workspace backend: commands and files of one sandbox. `close` ends it; its files stay until `delete`.

    Args:
        ref: The environment to continue in; without one, the first operation makes a new one.
        **settings: As for `crabpot.sandbox`, such as `network="internet"`, `limits={…}` or `state=…`.
    """

    def __init__(self, ref: WorkspaceRef | None = None, **settings: Any) -> None:
        self._ref = ref
        self._settings = settings
        self._opening = asyncio.Lock()
        self._box: crabpot.Box | None = None
        self._directory = ""

    @property
    def ref(self) -> WorkspaceRef | None:
        """Return what names the environment: None before the first operation of a new one."""
        return self._ref

    async def _open(self) -> crabpot.Box:
        if self._box is not None:
            return self._box
        async with self._opening:
            if self._box is None:
                if self._ref is not None and not self._kept(self._ref.id):
                    raise WorkspaceUnavailableError(f"there is no sandbox {self._ref.id!r} any more")
                self._ref = self._ref or WorkspaceRef(provider=PROVIDER, id=f"pydantic-ai-{uuid4().hex}")
                box = await crabpot.sandbox(name=self._ref.id, **self._settings)
                await self._checked(box.stat("."))
                self._directory = await self._checked(box.realpath("."))
                self._box = box
        return self._box

    def _kept(self, name: str) -> bool:
        return any(one.name == name for one in crabpot.named_sandboxes(state=self._settings.get("state")))

    async def close(self) -> None:
        """End the sandbox. Its files stay, and the next operation opens it again."""
        box, self._box = self._box, None
        if box is not None:
            await box.close()

    async def delete(self) -> None:
        """End the sandbox and delete its files; nothing can attach to it any more."""
        await self.close()
        if self._ref is not None:
            await asyncio.to_thread(crabpot.delete_sandbox, self._ref.id, state=self._settings.get("state"))

    @staticmethod
    async def _checked(doing: Any) -> Any:
        """Await a method of the box; a sandbox that is gone is what the framework calls unavailable."""
        try:
            return await doing
        except crabpot.SandboxError as error:
            raise WorkspaceUnavailableError(str(error)) from error

    async def working_dir(self) -> str:
        """Return the folder where commands start."""
        await self._open()
        return self._directory

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Run a command. What it leaves running goes on until the sandbox ends."""
        validate_timeout(timeout)
        if isinstance(command, str) is not shell:
            raise TypeError("a command is shell text with shell=True, or an argv without it")
        box = await self._open()
        limit = None if timeout is None else min(timeout, box.time_ceiling)
        done = await box.exec(command, env=env, timeout=limit, text=True, detach=True)
        if done.error is None and done.exit_code is not None:
            if done.truncated:
                raise crabpot.CallFailed("output_limit", "the output was cut; raise limits.output")
            return CommandResult(exit_code=done.exit_code, stdout=done.stdout, stderr=done.stderr)
        assert done.error is not None
        code, message = done.error.code, done.error.message
        if code in ("sandbox_lost", "sandbox_unavailable", "cancelled"):
            raise WorkspaceUnavailableError(message)
        if code == "timeout":
            raise WorkspaceTimeoutError(message, stdout=done.stdout, stderr=done.stderr)
        if code in _REFUSED or (code in ("not_found", "permission_denied") and not shell):
            missing = _NO_SUCH_PROGRAM if code == "not_found" else _NOT_EXECUTABLE
            return CommandResult(exit_code=missing, stdout="", stderr=message)
        raise_failure(done.error)

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a file."""
        content: bytes = await self._checked((await self._open()).read(path))
        return content

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Create or replace a file; missing folders are made."""
        await self._checked((await self._open()).write(path, data))

    async def stat(self, path: str) -> FileEntry:
        """Describe a file or folder."""
        info = await self._checked((await self._open()).stat(path))
        return _entry(info, path)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """List a folder; a link is described by what it leads to, or by itself if that is nothing."""
        box = await self._open()
        entries = []
        for info in await self._checked(box.ls(path)):
            inner = posixpath.join(path, info.name)
            entries.append(_entry(await _followed(box, inner, info), inner))
        return entries

    async def make_dir(self, path: str) -> None:
        """Make a folder, with those above it."""
        await self._checked((await self._open()).mkdir(path, parents=True, exist_ok=True))

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder and all in it; never the working folder."""
        box = await self._open()
        absolute = posixpath.normpath(posixpath.join(self._directory, path))
        if f"{self._directory}/".startswith(f"{absolute.rstrip('/')}/"):
            raise ValueError(f"{path} is the working folder, or contains it")
        await self._checked(box.remove(path, recursive=True))

    async def exists(self, path: str) -> bool:
        """Return whether there is anything at a path."""
        found: bool = await self._checked((await self._open()).exists(path))
        return found

    async def realpath(self, path: str) -> str:
        """Resolve all links of a path; what is missing stays as written."""
        box = await self._open()
        result = await box.exec(["realpath", "-m", "--", posixpath.join(self._directory, path)])
        if not result.success:
            raise OSError(result.stderr.decode("utf-8", "replace").strip() or f"{path}: cannot be resolved")
        return result.stdout.removesuffix(b"\n").decode("utf-8", "replace")


async def _followed(box: crabpot.Box, path: str, info: crabpot.FileInfo) -> crabpot.FileInfo:
    if info.type != "link":
        return info
    try:
        return await box.stat(path)
    except crabpot.CallFailed:
        return info


def _entry(info: crabpot.FileInfo, path: str) -> FileEntry:
    size = info.size if info.type == "file" else None
    return FileEntry(name=posixpath.basename(path.rstrip("/")), path=path, is_dir=info.is_directory, size=size)


@dataclass
class CrabpotSandbox(AbstractCapability[AgentDepsT]):
    """Gives runs a workspace in a sandbox of Crabpot.

    Args:
        settings: As for `crabpot.sandbox`: `{"network": "internet", "limits": {"memory": "1g"}}`.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)

    _: KW_ONLY

    id: str | None = "crabpot_sandbox"

    def get_workspace(self, ctx: RunContext[AgentDepsT], *, ref: WorkspaceRef | None) -> WorkspaceBackend | None:
        """Return the sandbox of a ref, or a new one; another provider's ref is left to others."""
        if ref is not None and ref.provider != PROVIDER:
            return None
        return CrabpotWorkspace(ref, **self.settings)
