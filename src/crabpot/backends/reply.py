"""A runner's answer, checked field by field: codes and text cross the wire, never types."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

CODES = frozenset(
    "denied approval_denied approval_timeout invalid_arguments not_found is_directory not_a_file exists "
    "permission_denied read_only no_match ambiguous_match conflict outside timeout cancelled output_limit memory_limit "
    "process_limit disk_limit sandbox_lost sandbox_unavailable internal".split()
)

# What a runner may claim of its own calls. Who decided, and whether the sandbox lives, only the gateway knows.
FROM_RUNNER = CODES - {"denied", "approval_denied", "approval_timeout", "sandbox_lost", "sandbox_unavailable"}

_HIGHEST_EXIT = 255


class BadReply(ValueError):
    """An answer that no runner of ours gives; the sandbox that sent it is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a runner said of one call."""

    success: bool
    stdout: str
    stderr: str
    exit_code: int | None
    error: tuple[str, str] | None
    truncated: bool
    data: dict[str, Any] | None


def check(header: dict[str, Any], payload: bytes, stdout: bytes, stderr: bytes) -> Reply:
    """Read an answer; `stdout` and `stderr` are what came ahead of it in frames of their own."""
    data = header.get("data")
    if data is not None and type(data) is not dict:
        raise BadReply("data is not an object")
    exit_code = header.get("exit_code")
    if exit_code is not None and (type(exit_code) is not int or not 0 <= exit_code <= _HIGHEST_EXIT):
        raise BadReply("exit_code is not a number from 0 to 255")
    data = None if data is None else clean(data)
    if payload:
        data = {**(data or {}), "content": _content(data or {}, payload)}
    return Reply(
        success=_flag(header, "success"),
        stdout=stdout.decode("utf-8", "replace") + _text(header.get("stdout", "")),
        stderr=stderr.decode("utf-8", "replace") + _text(header.get("stderr", "")),
        exit_code=exit_code,
        error=_error(header.get("error")),
        truncated=_flag(header, "truncated"),
        data=data,
    )


def _content(data: dict[str, Any], payload: bytes) -> str:
    if data.get("encoding") == "base64":
        return base64.b64encode(payload).decode("ascii")
    return payload.decode("utf-8", "replace")


def _flag(header: dict[str, Any], name: str) -> bool:
    value = header.get(name, False)
    if type(value) is not bool:
        raise BadReply(f"{name} is not true or false")
    return value


def _error(value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    if type(value) is not dict or value.get("code") not in FROM_RUNNER:
        raise BadReply("error has no code that a runner may give")
    return value["code"], _text(value.get("message", ""))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise BadReply("text is not a string")
    cleaned: str = clean(value)
    return cleaned


def clean(value: Any) -> Any:
    """Replace halves of surrogate pairs, which JSON can spell and no door could print or send on."""
    if type(value) is str:
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if type(value) is dict:
        return {clean(key): clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if type(value) is list else value
