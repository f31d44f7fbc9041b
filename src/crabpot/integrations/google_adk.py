"""Google's Agent Development Kit: `CrabpotEnvironment` for tools that work in an environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crabpot
from crabpot.doors.python.results import raise_failure
from crabpot.integrations.versions import require

require("google-adk", "2.10", "3", extra="google-adk")

from google.adk.environment import BaseEnvironment, ExecutionResult

__all__ = ["CrabpotEnvironment"]

_FAILED = 125


class CrabpotEnvironment(BaseEnvironment):
    """A sandbox of Crabpot as an environment.

    Args:
        folder: The host folder to mount at /workspace, writable; without one, a private folder.
        **settings: As for `crabpot.sandbox`: `network="internet"`, `limits={…}`.
    """

    def __init__(self, folder: str | None = None, **settings: Any) -> None:
        self._folder = folder
        self._settings = settings
        self._box: crabpot.Box | None = None

    async def initialize(self) -> None:
        """Make the sandbox; safe to call twice."""
        if self._box is None:
            self._box = await crabpot.sandbox(self._folder, **self._settings)
        self.is_initialized = True

    async def close(self) -> None:
        """End the sandbox; safe to call twice."""
        box, self._box = self._box, None
        self.is_initialized = False
        if box is not None:
            await box.close()

    @property
    def working_dir(self) -> Path:
        """Return the folder where commands start, as seen inside."""
        return Path("/workspace")

    async def execute(self, command: str, *, timeout: float | None = None) -> ExecutionResult:
        """Run shell text; a refusal is an error that the model can read."""
        box = await self._open()
        limit = None if timeout is None else min(timeout, box.time_ceiling)
        done = await box.exec(command, timeout=limit, text=True, detach=True)
        if done.error is None:
            return ExecutionResult(exit_code=done.exit_code or 0, stdout=done.stdout, stderr=done.stderr)
        if done.error.code in ("sandbox_lost", "sandbox_unavailable"):
            raise_failure(done.error)
        said = f"{done.stderr}crabpot: {done.error.message}\n"
        timed_out = done.error.code == "timeout"
        return ExecutionResult(exit_code=_FAILED, stdout=done.stdout, stderr=said, timed_out=timed_out)

    async def read_file(self, path: Path) -> bytes:
        """Return the content of a file."""
        return await (await self._open()).read(str(path))

    async def write_file(self, path: Path, content: str | bytes) -> None:
        """Create or replace a file; missing folders are made."""
        await (await self._open()).write(str(path), content)

    async def _open(self) -> crabpot.Box:
        await self.initialize()
        assert self._box is not None
        return self._box
