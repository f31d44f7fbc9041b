"""How every tool reports failure: a code of the wire and a sentence for the person who reads it."""

from __future__ import annotations

import errno

_CODES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "is_directory",
    errno.EEXIST: "exists",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "read_only",
    errno.ENOSPC: "disk_limit",
    errno.EDQUOT: "disk_limit",
    errno.EFBIG: "disk_limit",
    errno.ENOMEM: "memory_limit",
    errno.E2BIG: "invalid_arguments",
    errno.ENAMETOOLONG: "invalid_arguments",
}


class ToolError(Exception):
    """A call failed; only its code and message cross the wire, never a type."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def from_os_error(error: OSError, what: str) -> ToolError:
    """Return the kernel's refusal as an error of the wire; one without a code of its own is `internal`."""
    code = _CODES.get(error.errno or 0, "internal")
    return ToolError(code, "%s: %s" % (what, error.strerror or error))


def as_tool_error(error: Exception) -> ToolError:
    """Return whatever a tool raised as an answer: one call's fault must not end the others."""
    if isinstance(error, ToolError):
        return error
    if isinstance(error, OSError):
        return from_os_error(error, error.filename if isinstance(error.filename, str) else "failed")
    if isinstance(error, MemoryError):
        return ToolError("memory_limit", "out of memory")
    return ToolError("internal", "%s: %s" % (type(error).__name__, error))


def encode_text(text: str, name: str) -> bytes:
    """Encode text of a call; names that are not UTF-8 travel as lone surrogates and come out unchanged."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolError("invalid_arguments", "%s is not text" % name) from error
