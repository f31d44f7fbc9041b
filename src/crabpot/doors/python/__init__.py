"""The door for Python programs: a gateway, its sessions, and sandboxes without agents.

May import: app and below.
Must never enter: a decision; and a second API: `crabpot.sync` is a bridge to this one.
"""

from crabpot.doors.python.boxes import Box, delete_sandbox, named_sandboxes, sandbox
from crabpot.doors.python.gateway import Gateway, snapshots
from crabpot.doors.python.results import CommandResult, FileInfo
from crabpot.doors.python.session import Session

__all__ = [
    "Box",
    "CommandResult",
    "FileInfo",
    "Gateway",
    "Session",
    "delete_sandbox",
    "named_sandboxes",
    "sandbox",
    "snapshots",
]
