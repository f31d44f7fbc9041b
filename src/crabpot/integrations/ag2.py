"""AG2: `CrabpotSandbox` as the backend of its shell and code tools."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Self

import crabpot
from crabpot.doors.python.results import raise_failure
from crabpot.integrations.versions import require

require("ag2", "1.0", "2", extra="ag2")

from ag2.tools.sandbox.base import ExecResult, SandboxBase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["CrabpotSandbox"]

_TIMED_OUT, _FAILED, _NOT_EXECUTABLE, _NO_SUCH_PROGRAM = 124, 125, 126, 127
_CODES = {"timeout": _TIMED_OUT, "not_found": _NO_SUCH_PROGRAM, "permission_denied": _NOT_EXECUTABLE}


class CrabpotSandbox(SandboxBase):
    """A sandbox of Crabpot, opened at its first use.

    Args:
        folder: The host folder to mount at /workspace, writable; without one, a private folder.
        **settings: As for `crabpot.sandbox`: `network="internet"`, `limits={…}`.
    """

    def __init__(self, folder: str | None = None, **settings: Any) -> None:
        self._folder = folder
        self._settings = settings
        self._box: crabpot.Box | None = None

    @property
    def workdir(self) -> PurePosixPath:
        """Return the folder where commands start, as seen inside."""
        return PurePosixPath("/workspace")

    @property
    def host_workdir(self) -> Path | None:
        """Return the host's folder, where one is mounted."""
        return None if self._folder is None else Path(self._folder)

    async def _open(self) -> crabpot.Box:
        if self._box is None:
            self._box = await crabpot.sandbox(self._folder, **self._settings)
        return self._box

    @asynccontextmanager
    async def open(self, context: object = None) -> AsyncIterator[CrabpotSandbox]:
        """Yield itself: its tools take it as an environment, in which all calls share one sandbox."""
        await self._open()
        yield self

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: agents copy their tools, and the copies work in the same sandbox."""
        return self

    async def __aenter__(self) -> Self:
        """Make the sandbox."""
        await self._open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """End the sandbox."""
        await self.aclose()

    async def aclose(self) -> None:
        """End the sandbox; safe to call twice."""
        box, self._box = self._box, None
        if box is not None:
            await box.close()

    async def exec(
        self, argv: list[str], *, env: dict[str, str] | None = None, timeout: float | None = None
    ) -> ExecResult:
        """Run an argv; a refusal is output that the model can read."""
        box = await self._open()
        limit = box.time_ceiling if timeout is None else min(timeout, box.time_ceiling)
        done = await box.exec(argv, env=env, timeout=limit, text=True, merged=True, detach=True)
        if done.error is None:
            return ExecResult(output=done.stdout.strip(), exit_code=done.exit_code or 0)
        if done.error.code in ("sandbox_lost", "sandbox_unavailable"):
            raise_failure(done.error)
        said = f"{done.stdout}crabpot: {done.error.message}"
        return ExecResult(output=said, exit_code=_CODES.get(done.error.code, _FAILED))

    async def put_file(self, path: PurePosixPath, content: bytes) -> None:
        """Write a file below the working folder."""
        if path.is_absolute():
            raise ValueError(f"{path} is absolute; files are written below {self.workdir}")
        await (await self._open()).write(str(path), content)

    async def remove_file(self, path: PurePosixPath) -> None:
        """Remove a file below the working folder; one that is gone already will do."""
        await (await self._open()).remove(str(path), missing_ok=True)
