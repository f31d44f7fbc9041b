"""One change of a layer: what it would do to the host's folder, and what keeps it from arriving."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import os

Action = Literal["added", "modified", "deleted"]
Kind = Literal["file", "folder", "link"]

PERMISSIONS = 0o777
# Deeper than any project: an agent could exhaust whoever walks down without end.
DEEPEST = 200
TOO_DEEP = f"lies more than {DEEPEST} folders deep"
UNLISTED = "nobody may list it; run chmod u+rx on it inside"
UNREAD = "nobody may read it; run chmod u+r on it inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A path at which a layer differs from the host: what the layer has there, and what the host has."""

    path: str
    new: os.stat_result | None
    old: os.stat_result | None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change, judged."""

    path: str
    new: os.stat_result | None
    old: os.stat_result | None
    gate: str | None
    marked: str | None
    conflict: bool
    refused: str | None
    """Why it never arrives, whoever agrees; None for nearly everything."""

    @property
    def action(self) -> Action:
        """What happened to the path."""
        if self.new is None:
            return "deleted"
        return "added" if self.old is None else "modified"

    @property
    def kind(self) -> Kind:
        """What lies at the path in the layer, or what was deleted. What is none of the three is called a file."""
        facts = self.new or self.old
        assert facts is not None
        return kind_of(facts)

    def as_json(self) -> dict[str, Any]:
        """Return the shape of `changes list --json`."""
        facts = self.new or self.old
        assert facts is not None
        return {
            "path": self.path,
            "action": self.action,
            "type": self.kind,
            "mode": f"{stat.S_IMODE(facts.st_mode):04o}",
            "size": 0 if self.kind == "folder" else facts.st_size,
            "gate": self.gate,
            "marked": self.marked,
            "conflict": self.conflict,
        }


def kind_of(facts: os.stat_result) -> Kind:
    """Return whether this is a folder, a link, or a file of whatever type."""
    if stat.S_ISDIR(facts.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(facts.st_mode) else "file"


def git_mode(facts: os.stat_result) -> str | None:
    """Return the mode by which git knows a file or a link; None for what git does not know."""
    if stat.S_ISLNK(facts.st_mode):
        return "120000"
    if stat.S_ISREG(facts.st_mode):
        return "100755" if facts.st_mode & stat.S_IXUSR else "100644"
    return None


def identity(facts: os.stat_result) -> list[int]:
    """Return what tells a file from another in its place, and from itself after a change of its content or mode."""
    return [facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_mode]
