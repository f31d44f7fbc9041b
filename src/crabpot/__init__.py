"""Crabpot keeps an AI agent's tool calls inside a pot: which tools, where they run, when one may leave."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crabpot.approvals.requests import Answer, Request
    from crabpot.doors.python import Gateway, sandbox, snapshots
    from crabpot.errors import (
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
    "ConfigError",
    "CrabpotError",
    "Failure",
    "Gateway",
    "LayerError",
    "Place",
    "Request",
    "SandboxError",
    "SandboxLost",
    "SandboxUnavailable",
    "SessionError",
    "ToolCall",
    "ToolResult",
    "Verdict",
    "sandbox",
    "snapshots",
]

_HOMES = {
    "crabpot.doors.python": ("Gateway", "sandbox", "snapshots"),
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
