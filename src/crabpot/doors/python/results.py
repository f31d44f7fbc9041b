"""What the methods of a session return and raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from crabpot.errors import CallFailed, SandboxLost, SandboxUnavailable

if TYPE_CHECKING:
    from crabpot.model import Failure, ToolResult

Output = TypeVar("Output", bytes, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult(Generic[Output]):
    """How a command ended. One that fails is a result; `error` is for everything else, such as a time limit.

    Attributes:
        exit_code: The command's own, or None where `error` says why there is none.
        stdout: What it printed: bytes, or text where that was asked for. Empty where a sink took it.
        stderr: What it printed to standard error; empty where the outputs were merged.
        error: Why there is no exit code: `timeout`, `denied`, `sandbox_lost` and others (docs/doors.md).
        truncated: Whether output was cut at `limits.output`.
        process: With `detach`, the id of what it left running, for the tool `process`.
        place: Where it ran: sandbox, host or none.
        duration_ms: How long it took, waiting included.
    """

    exit_code: int | None
    stdout: Output
    stderr: Output
    error: Failure | None = None
    truncated: bool = False
    process: str | None = None
    place: str = "sandbox"
    duration_ms: float = 0.0

    @property
    def success(self) -> bool:
        """Return whether it ran and its exit code is 0."""
        return self.exit_code == 0 and self.error is None

    def check(self) -> CommandResult[Output]:
        """Return itself, or raise CallFailed if there is no exit code or it is not 0."""
        if self.error is not None:
            raise_failure(self.error)
        if self.exit_code != 0:
            said = self.stderr or self.stdout
            text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
            raise CallFailed("failed", f"the command ended with {self.exit_code}: {text.strip()[-1000:]}")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A file, folder or link of a sandbox, by its own word.

    Attributes:
        name: The last part of its path.
        type: `file`, `directory`, `link` or `other`.
        size: In bytes.
        modified: In seconds since 1970.
        mode: The permission bits, or None in a listing.
    """

    name: str
    type: str
    size: int
    modified: float
    mode: int | None = None

    @property
    def is_directory(self) -> bool:
        """Return whether it is a folder."""
        return self.type == "directory"


class _NotFound(CallFailed, FileNotFoundError):
    """There is no such file or folder."""


class _IsDirectory(CallFailed, IsADirectoryError):
    """It is a folder."""


class _NotADirectory(CallFailed, NotADirectoryError):
    """It, or a part on the way to it, is not a folder."""


class _Exists(CallFailed, FileExistsError):
    """Something is there already."""


class _Refused(CallFailed, PermissionError):
    """It may not be done."""


class _NoFile(CallFailed, OSError):
    """It is a pipe, a device or a socket, or there is no room for it."""


class _TimedOut(CallFailed, TimeoutError):
    """It took too long."""


_BY_CODE: dict[str, type[CallFailed]] = {
    "not_found": _NotFound,
    "is_directory": _IsDirectory,
    "not_a_directory": _NotADirectory,
    "exists": _Exists,
    "permission_denied": _Refused,
    "read_only": _Refused,
    "outside": _Refused,
    "denied": _Refused,
    "approval_denied": _Refused,
    "approval_timeout": _Refused,
    "timeout": _TimedOut,
    "not_a_file": _NoFile,
    "disk_limit": _NoFile,
}


def raise_failure(failure: Failure) -> NoReturn:
    """Raise the exception that says the same."""
    if failure.code == "sandbox_lost":
        raise SandboxLost(failure.message)
    if failure.code == "sandbox_unavailable":
        raise SandboxUnavailable(failure.message)
    raise _BY_CODE.get(failure.code, CallFailed)(failure.code, failure.message)


def data_of(result: ToolResult) -> dict[str, Any]:
    """Return what a call found, or raise why it did not."""
    if result.error is not None:
        raise_failure(result.error)
    return dict(result.data or {})


def info_of(found: dict[str, Any], name: str) -> FileInfo:
    """Read a description that came from inside: a broken one is the sandbox's failure, not the program's."""
    kind, size, modified, mode = (found.get(key) for key in ("type", "size", "modified", "mode"))
    whole = isinstance(kind, str) and isinstance(size, int) and isinstance(modified, int | float)
    if not whole or not isinstance(mode, int | None) or not name or "/" in name or "\0" in name:
        raise SandboxLost("the sandbox described a file in no way that a runner does")
    return FileInfo(name=name, type=str(kind), size=int(size or 0), modified=float(modified or 0), mode=mode)
