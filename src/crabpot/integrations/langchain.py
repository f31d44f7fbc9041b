"""LangChain's deep agents: `create_deep_agent(backend=CrabpotSandbox())` works in a sandbox.

Files are read, written, edited, listed and deleted by our own methods. Searches stay the framework's: it looks for
literal text, in hidden and ignored files too, which our tools for agents do not.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crabpot import sync
from crabpot.errors import CallFailed, CrabpotError
from crabpot.integrations.versions import require

require("deepagents", "0.6", "0.9", extra="langchain")

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
    LsResult,
    SandboxBackendProtocol,
    WriteResult,
)
from deepagents.backends.sandbox import BaseSandbox

if TYPE_CHECKING:
    from crabpot.doors.python.results import FileInfo

__all__ = ["CrabpotSandbox"]

_TIMED_OUT, _FAILED, _DENIED = 124, 125, 126
_ERRORS = {
    "not_found": "file_not_found",
    "not_a_directory": "invalid_path",
    "is_directory": "is_directory",
    "permission_denied": "permission_denied",
    "read_only": "permission_denied",
    "denied": "permission_denied",
    "outside": "invalid_path",
    "invalid_arguments": "invalid_path",
}


class CrabpotSandbox(BaseSandbox):
    """A sandbox of Crabpot as a backend of deep agents.

    Args:
        folder: The host folder to mount at /workspace, writable; without one, a private folder.
        **settings: As for `crabpot.sandbox`: `name="…"` to find it again, `network="internet"`, `limits={…}`.
    """

    def __init__(self, folder: str | None = None, **settings: Any) -> None:
        limits = {"output": "16m", **settings.pop("limits", {})}
        self._box = sync.open_sandbox(folder, limits=limits, **settings)

    @property
    def id(self) -> str:
        """Return the session key, as in the audit log."""
        return str(self._box.session)

    def close(self) -> None:
        """End the sandbox; the files of one without a name go with it."""
        self._box.close()

    def __enter__(self) -> CrabpotSandbox:  # noqa: PYI034  the framework runs on versions without Self
        """Return itself; the block's end closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Run shell text; what failed outside the command is text that a model can read."""
        limit = None if not timeout else min(timeout, self._box.time_ceiling)
        done = self._box.exec(command, timeout=limit, text=True, merged=True, detach=True)
        if done.error is None:
            return ExecuteResponse(output=done.stdout, exit_code=done.exit_code, truncated=done.truncated)
        codes = {"timeout": _TIMED_OUT, "denied": _DENIED, "approval_denied": _DENIED, "approval_timeout": _DENIED}
        said = f"{done.stdout}\ncrabpot: {done.error.message}".lstrip("\n")
        return ExecuteResponse(output=said, exit_code=codes.get(done.error.code, _FAILED), truncated=done.truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Write files, each on its own; missing folders are made."""
        return [FileUploadResponse(path=path, error=self._upload(path, content)) for path, content in files]

    def _upload(self, path: str, content: bytes) -> Any:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self._box.write(path, content)
        except CrabpotError as error:
            return _code(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files, each on its own."""
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(path=path, content=self._box.read(path))
        except CrabpotError as error:
            return FileDownloadResponse(path=path, error=_code(error))

    def ls(self, path: str) -> LsResult:
        """List a folder, hidden entries too."""
        try:
            entries = self._box.ls(path)
        except CrabpotError as error:
            return LsResult(error=f"Error: {error}")
        return LsResult(entries=[_info(path, entry) for entry in entries])

    def write(self, file_path: str, content: str) -> WriteResult:
        """Create or replace a file; missing folders are made."""
        error = self._upload(file_path, content.encode())
        if error:
            return WriteResult(error=f"Failed to write file '{file_path}': {error}")
        return WriteResult(path=file_path)

    def edit(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,
    ) -> EditResult:
        """Replace text in a file; it must occur exactly once, unless all occurrences are wanted."""
        result = self._box.call("edit", path=file_path, old=old_string, new=new_string, all=replace_all)
        if result.error is None:
            return EditResult(path=file_path, occurrences=(result.data or {}).get("replacements"))
        code = result.error.code
        if code == "not_found":
            return EditResult(error=f"Error: File '{file_path}' not found")
        if code == "no_match":
            return EditResult(error=f"Error: String not found in file: '{old_string}'")
        if code == "ambiguous_match":
            said = "appears multiple times. Use replace_all=True to replace all occurrences."
            return EditResult(error=f"Error: String '{old_string}' {said}")
        return EditResult(error=f"Error editing file '{file_path}': {result.error.message}")

    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a folder with all in it."""
        try:
            self._box.remove(file_path, recursive=True)
        except FileNotFoundError:
            return DeleteResult(error=f"Error: '{file_path}' not found")
        except CrabpotError as error:
            return DeleteResult(error=f"Error deleting file '{file_path}': {error}")
        return DeleteResult(path=file_path)

    # In a thread, by the same methods: what the base class has for an event loop would go through a shell.
    als = SandboxBackendProtocol.als
    awrite = SandboxBackendProtocol.awrite
    aedit = SandboxBackendProtocol.aedit


def _code(error: CrabpotError) -> str:
    return _ERRORS.get(error.code, str(error)) if isinstance(error, CallFailed) else str(error)


def _info(path: str, entry: FileInfo) -> Any:
    return {
        "path": f"{path.rstrip('/')}/{entry.name}",
        "is_dir": entry.is_directory,
        "size": entry.size,
        "modified_at": datetime.fromtimestamp(entry.modified, UTC).isoformat(),
    }
