"""The parsers of the commands for sessions under review."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.doors.cli.parsing import add, group

if TYPE_CHECKING:
    from crabpot.doors.cli.parsing import Adder

_SESSION = "the session (default: the one whose changes are over the current folder, else agent:main:main)"
_ACTIONS = (
    ("list", "list the changes, what the host would execute of them, and the commits"),
    ("diff", "show the changes as a unified diff, from the host's files to the agent's"),
    ("apply", "bring the changes to the host's folder, and the commits as branches; exit 1 if something stays"),
    ("undo", "put back what the last apply replaced, where nothing changed since"),
    ("discard", "forget the changes; asks first on a terminal"),
)


def describe(commands: Adder) -> None:
    """Add the parsers."""
    actions = group(commands, "changes", "show, apply, undo or discard what a session under review changed")
    for name, meaning in _ACTIONS:
        one = add(actions, name, f"changes:{name}_changes", meaning)
        one.add_argument("--session", metavar="KEY", help=_SESSION)
        if name in ("list", "diff", "apply"):
            text = "also what the host would execute" if name == "apply" else "only what the host would execute"
            one.add_argument("--gated", action="store_true", help=text)
        one.add_argument("--json", action="store_true", help="print JSON")
        one.add_argument("paths", nargs="*", metavar="PATH", help="only these, and what lies beneath them")
