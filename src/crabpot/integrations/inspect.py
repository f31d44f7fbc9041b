"""Inspect: `Task(…, sandbox="crabpot")` runs every sample in a sandbox of its own.

Found by Inspect through the entry point of this package. Settings come as a configuration object, not as a compose
file: `sandbox=SandboxEnvironmentSpec("crabpot", CrabpotConfig(network="internet"))`.
"""

from __future__ import annotations

from typing import Any, Literal, overload

from pydantic import BaseModel, ConfigDict

import crabpot
from crabpot.doors.python.results import raise_failure
from crabpot.doors.python.shells import Shells
from crabpot.integrations.versions import require

require("inspect-ai", "0.3.200", "0.4", extra="inspect")

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import SandboxConnection, SandboxUnavailableError

__all__ = ["CrabpotConfig", "CrabpotSandboxEnvironment"]

_USER = "agent"
_NO_SUCH_PROGRAM = 127
# Inspect's tools are copied to /var/tmp and run there.
_DEFAULTS: dict[str, Any] = {"tmp_exec": True}


class CrabpotConfig(BaseModel):
    """Settings of the sandboxes, as for `crabpot.sandbox`."""

    model_config = ConfigDict(frozen=True, extra="allow")


@sandboxenv(name="crabpot")
class CrabpotSandboxEnvironment(SandboxEnvironment):
    """One sandbox of Crabpot, for one sample."""

    def __init__(self, box: crabpot.Box) -> None:
        super().__init__()
        self._box = box
        self._shells = Shells(box, box.state)

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        """Open the sandbox of a sample."""
        if config is not None and not isinstance(config, BaseModel):
            raise ValueError("the configuration of a crabpot sandbox is a CrabpotConfig, not a file")
        given = {**_DEFAULTS, **(config.model_dump() if config is not None else {})}
        limits = {"output": SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE, **given.pop("limits", {})}
        return {"default": cls(await crabpot.sandbox(limits=limits, **given))}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Any,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """End the sandboxes of a sample, and delete their files."""
        for environment in environments.values():
            ours = environment.as_type(CrabpotSandboxEnvironment)
            ours._shells.close()  # noqa: SLF001  our own
            await ours._box.close()  # noqa: SLF001  as above

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        """Return the configuration of a recorded evaluation."""
        return CrabpotConfig(**config)

    def default_polling_interval(self) -> float:
        """Return how often a background command is asked for its output, in seconds."""
        return 0.2

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        """Return the command that connects a terminal of the user who runs the evaluation."""
        _check_user(user)
        return SandboxConnection(type="crabpot", command=await self._shells.open())

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run an argv. What it leaves running goes on until the sample ends."""
        _check_user(user)
        limit = None if timeout is None else min(timeout, self._box.time_ceiling)
        done = await self._box.exec(cmd, cwd=cwd, env=env, stdin=input, timeout=limit, text=True, detach=True)
        if done.truncated:
            most = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR
            raise OutputLimitExceededError(limit_str=most, truncated_output=done.stdout or done.stderr)
        if done.exit_code is not None and done.error is None:
            success = done.exit_code == 0
            return ExecResult(success=success, returncode=done.exit_code, stdout=done.stdout, stderr=done.stderr)
        return _unfinished(done)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Create or replace a file; missing folders are made."""
        await self._box.write(file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Return the content of a file, up to the framework's limit."""
        found = await self._box.stat(file)
        if found.is_directory:
            raise IsADirectoryError(f"{file} is a directory")
        if found.size > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(
                limit_str=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, truncated_output=None
            )
        content = await self._box.read(file)
        return content.decode("utf-8") if text else content


def _check_user(user: str | None) -> None:
    if user not in (None, _USER):
        raise SandboxUserUnsupportedError(f"a crabpot sandbox has one user, {_USER}; {user!r} is not it")


def _unfinished(done: crabpot.CommandResult[str]) -> ExecResult[str]:
    """Return or raise what the framework expects of a command that has no exit code."""
    assert done.error is not None
    code, message = done.error.code, done.error.message
    if code in ("sandbox_lost", "sandbox_unavailable"):
        raise SandboxUnavailableError(message)
    if code == "not_found":
        return ExecResult(success=False, returncode=_NO_SUCH_PROGRAM, stdout="", stderr=message)
    if code == "timeout":
        raise TimeoutError(message)
    if code == "process_limit":
        return ExecResult(success=False, returncode=1, stdout=done.stdout, stderr=f"{done.stderr}{message}")
    raise_failure(done.error)
