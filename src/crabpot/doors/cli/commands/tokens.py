"""`tokens`: who may use HTTP on the loopback."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from crabpot.doors.cli.frame import OK, UsageError, note
from crabpot.doors.cli.show import visible
from crabpot.doors.http.access.principals import Role
from crabpot.doors.http.access.tokens import Tokens

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.doors.cli.frame import Frame


def list_tokens(frame: Frame, options: Namespace) -> int:
    """List the tokens."""
    listed = _tokens(frame).listed()
    if options.json:
        shown = [{name: value for name, value in asdict(token).items() if name != "digest"} for token in listed]
        print(json.dumps(shown, indent=2))
        return OK
    for token in listed:
        when = time.strftime("%Y-%m-%d", time.localtime(token.created))
        rest = [*token.sessions, *([f"sent by {token.sender}"] if token.sender else [])]
        rest += ["may run on the host"] if token.allow_host else []
        print(visible(f"{token.name:<24} {token.role:<9} {when}  {', '.join(rest)}".rstrip()))
    if not listed:
        note("no tokens; crabpot serve --listen creates the operator's")
    return OK


def add(frame: Frame, options: Namespace) -> int:
    """Create a token, and print only its secret on standard output."""
    if options.role == Role.AGENT and not options.session:
        raise UsageError("an agent's token needs sessions: --session KEY, where * matches anything")
    made = _tokens(frame).add(
        options.name,
        Role(options.role),
        sessions=tuple(options.session),
        sender=options.sender,
        elicits=options.elicit,
        allow_host=options.allow_host,
    )
    note("this is shown once; whoever has it gets the access described")
    print(made)
    return OK


def rotate(frame: Frame, options: Namespace) -> int:
    """Replace a token's secret."""
    made = _tokens(frame).rotate(options.name)
    note("the old secret no longer works")
    print(made)
    return OK


def remove(frame: Frame, options: Namespace) -> int:
    """Remove a token."""
    _tokens(frame).remove(options.name)
    return OK


def _tokens(frame: Frame) -> Tokens:
    return Tokens(frame.app().around.state)
