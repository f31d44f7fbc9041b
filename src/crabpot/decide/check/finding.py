"""One thing that `check` found, and its fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to look at: where it stands, what it means, what to do."""

    severity: Literal["error", "warning"]
    path: str
    message: str
    fix: str

    def __str__(self) -> str:
        """Read as `path: message; fix`."""
        return f"{self.path}: {self.message}; {self.fix}"


def warn(path: str, message: str, fix: str) -> Finding:
    """Give a warning."""
    return Finding(severity="warning", path=path, message=message, fix=fix)
