"""Crabpot keeps an AI agent's tool calls inside a pot: which tools, where they run, when one may leave."""

from __future__ import annotations

# `typing` imports regular expressions, and the command line must not pay for them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from crabpot.approvals.requests import Answer, Request
    from crabpot.doors.python.boxes import Box, delete_sandbox, named_sandboxes, sandbox
    from crabpot.doors.python.gateway import Gateway, snapshots
    from crabpot.doors.python.results import CommandResult, FileInfo
    from crabpot.doors.python.session import Session
    from crabpot.errors import (
        CallFailed,
        ConfigError,
        CrabpotError,
        LayerError,
        SandboxError,
        SandboxLost,
        SandboxUnavailable,
        SessionError,
    )
    from crabpot.model import Failure, Place, ToolCall, ToolResult, Verdict

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Box",
    "CallFailed",
    "CommandResult",
    "ConfigError",
    "CrabpotError",
    "Failure",
    "FileInfo",
    "Gateway",
    "LayerError",
    "Place",
    "Request",
    "SandboxError",
    "SandboxLost",
    "SandboxUnavailable",
    "Session",
    "SessionError",
    "ToolCall",
    "ToolResult",
    "Verdict",
    "delete_sandbox",
    "named_sandboxes",
    "sandbox",
    "snapshots",
]

_HOMES = {
    "crabpot.doors.python.boxes": ("Box", "delete_sandbox", "sandbox", "named_sandboxes"),
    "crabpot.doors.python.gateway": ("Gateway", "snapshots"),
    "crabpot.doors.python.results": ("CommandResult", "FileInfo"),
    "crabpot.doors.python.session": ("Session",),
    "crabpot.approvals.requests": ("Answer", "Request"),
    "crabpot.model": ("Failure", "Place", "ToolCall", "ToolResult", "Verdict"),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the command line must not pay for the whole package."""
    from importlib import import_module  # noqa: PLC0415

    if name not in __all__:
        raise AttributeError(f"module 'crabpot' has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "crabpot.errors")
    return getattr(import_module(home), name)
