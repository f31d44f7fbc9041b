"""LangChain's deep agents: `create_deep_agent(backend=CrabpotSandbox())` works in a sandbox.

Files are read, written, edited, listed, searched and deleted by our own tools and methods, not by a shell. Searches
leave out what .gitignore excludes, as the framework's own do where it has ripgrep.
"""

from __future__ import annotations

import base64
import posixpath
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crabpot import sync
from crabpot.errors import CallFailed, CrabpotError
from crabpot.integrations.versions import require

require("deepagents", "0.7", "0.8", extra="langchain")

from deepagents.backends.protocol import (
    DeleteResult,
    EditResult,
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    SandboxBackendProtocol,
    WriteResult,
)
from deepagents.backends.sandbox import BaseSandbox
from deepagents.backends.utils import EMPTY_CONTENT_WARNING, _get_backend_read_file_type, normalize_read_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.doors.python.results import FileInfo

__all__ = ["CrabpotSandbox"]

_TIMED_OUT, _FAILED, _DENIED = 124, 125, 126
_WORKSPACE = "/workspace"
# What the framework shows of one file, and what the tools find at most.
_MOST_SHOWN, _MOST_MATCHES, _MOST_PATHS = 500 * 1024, 1000, 10_000
_CUT = "\n\n[Output was truncated due to size limits. Read on with a larger offset or a smaller limit.]"
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

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Return lines of a text, from `offset` (0 is the first) on, or a small file of another kind as base64."""
        offset, limit = normalize_read_bounds(offset, limit)
        try:
            found = self._box.stat(file_path)
            if found.type != "file":
                return ReadResult(error=f"File '{file_path}': not_a_file")
            if not found.size:
                return ReadResult(file_data={"content": EMPTY_CONTENT_WARNING, "encoding": "utf-8"})
            if _get_backend_read_file_type(file_path) != "text":
                return self._preview(file_path, found.size)
        except CrabpotError as error:
            return ReadResult(error=f"File '{file_path}': {_code(error)}")
        if not limit:
            return ReadResult(file_data={"content": "", "encoding": "utf-8"}, no_lines_requested=True)
        result = self._box.call("read", path=file_path, offset=offset + 1, limit=limit)
        if result.error is not None and result.error.code == "invalid_arguments":
            return self._preview(file_path, found.size)
        if result.error is not None:
            return ReadResult(error=f"File '{file_path}': {result.error.message}")
        return _page(file_path, result.data or {}, offset)

    def _preview(self, path: str, size: int) -> ReadResult:
        if size > _MOST_SHOWN:
            said = f"Binary file exceeds maximum preview size of {_MOST_SHOWN} bytes"
            return ReadResult(error=f"File '{path}': {said}")
        content = base64.b64encode(self._box.read(path, limit=_MOST_SHOWN)).decode("ascii")
        return ReadResult(file_data={"content": content, "encoding": "base64"})

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Search for literal text."""
        most = _MOST_MATCHES if max_count is None else min(max(max_count, 1), _MOST_MATCHES)
        args = {"pattern": re.escape(pattern), "path": path or ".", "limit": most}
        result = self._box.call("grep", **args, **({} if glob is None else {"glob": glob}))
        if result.error is not None:
            return GrepResult(error=f"Path '{path or '.'}': {result.error.message}")
        data = result.data or {}
        matches: list[Any] = [
            {"path": _absolute(one["path"]), "line": one["line"], "text": one["text"]} for one in data["matches"]
        ]
        return GrepResult(matches=matches[:max_count], truncated=data["truncated"] or max_count == 0)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files: a pattern without a slash by their name, in hidden folders too, another one by their path."""
        wanted = [f"**/{pattern}", f"**/.*/**/{pattern}"] if "/" not in pattern else [pattern.lstrip("/")]
        found: set[str] = set()
        truncated = False
        for one in wanted:
            result = self._box.call("glob", pattern=one, path=path or _WORKSPACE, limit=_MOST_PATHS)
            if result.error is not None:
                return GlobResult(error=f"Path '{path or _WORKSPACE}': {result.error.message}")
            data = result.data or {}
            found.update(map(_absolute, data["paths"]))
            truncated = truncated or data["truncated"]
        matches: list[Any] = [{"path": one, "is_dir": False} for one in sorted(found)]
        return GlobResult(matches=matches, truncated=truncated, truncation_reason="budget" if truncated else None)

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
    aread = SandboxBackendProtocol.aread
    agrep = SandboxBackendProtocol.agrep
    aglob = SandboxBackendProtocol.aglob
    awrite = SandboxBackendProtocol.awrite
    aedit = SandboxBackendProtocol.aedit


def _code(error: CrabpotError) -> str:
    return _ERRORS.get(error.code, str(error)) if isinstance(error, CallFailed) else str(error)


def _absolute(path: str) -> str:
    return posixpath.join(_WORKSPACE, path)


def _page(path: str, data: Mapping[str, Any], offset: int) -> ReadResult:
    """Return lines as the framework has them: without the last one's ending, and no more than it shows."""
    text, total = str(data["content"]).replace("\r\n", "\n"), data["lines"]
    if not text:
        return ReadResult(error=f"File '{path}': Line offset {offset} exceeds file length ({total} lines)")
    lines = text.removesuffix("\n").split("\n")
    kept = text.encode()[:_MOST_SHOWN].decode("utf-8", "ignore").removesuffix("\n").split("\n")
    whole = kept == lines and not data["truncated"]
    # The line that was cut is read again with the next page, unless it is the only one.
    end = offset + (len(lines) if whole else max(1, len(kept) - 1))
    return ReadResult(
        file_data={"content": "\n".join(kept) + ("" if whole else _CUT), "encoding": "utf-8"},
        total_lines=total,
        start_line=offset + 1,
        end_line=end,
        next_offset=end if total is None or end < total else None,
    )


def _info(path: str, entry: FileInfo) -> Any:
    return {
        "path": f"{path.rstrip('/')}/{entry.name}",
        "is_dir": entry.is_directory,
        "size": entry.size,
        "modified_at": datetime.fromtimestamp(entry.modified, UTC).isoformat(),
    }
