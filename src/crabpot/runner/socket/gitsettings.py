"""What every git of ours is told first, wherever it runs: start nothing that a repository names, and add nothing."""

from __future__ import annotations

# Hooks, monitors and helpers of the repository, and work of git's own behind the command. A shell reads them too:
# no value may need quoting.
RUNS_NOTHING: dict[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "true",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
# Other repositories bring their own configuration, and a signature starts a program.
MOVES_ALONE: dict[str, str] = {
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "push.gpgSign": "false",
}
