"""One thing that `check` found, and its fix."""

from __future__ import annotations

from typing import Literal

from crabpot.frozen import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding: where it is, what it means, what to do."""

    severity: Literal["error", "warning"]
    path: str
    message: str
    fix: str

    def __str__(self) -> str:
        """Return `path: message; fix`."""
        return f"{self.path}: {self.message}; {self.fix}"


def warn(path: str, message: str, fix: str) -> Finding:
    """Return a warning."""
    return Finding(severity="warning", path=path, message=message, fix=fix)
