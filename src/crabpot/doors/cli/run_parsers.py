"""The parsers of `run` and of what goes with it: ports, secrets, the shell prefix of an agent outside."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from crabpot.doors.cli.parsing import add, group

if TYPE_CHECKING:
    from crabpot.doors.cli.parsing import Adder


def describe(commands: Adder) -> None:
    """Add the parsers."""
    _running(commands)
    _ports(commands)
    _secrets(commands)
    _prefix(commands)


def _running(commands: Adder) -> None:
    text = "run a whole agent (claude, codex, gemini, opencode, openclaw, aider, shell, or any program) in the pot"
    one = add(commands, "run", "run:run", text)
    one.add_argument("--in", dest="folder", metavar="DIR", help="the folder to work in (the current one)")
    ways = one.add_mutually_exclusive_group()
    ways.add_argument("--review", action="store_true", help="changes wait in a layer for your word (default)")
    ways.add_argument("--direct", action="store_true", help="the agent changes the folder itself")
    ways.add_argument("--private", action="store_true", help="an empty private folder instead")
    text = "another host that it may reach; may be repeated"
    one.add_argument("--allow", action="append", default=[], metavar="HOST[:PORT]", help=text)
    one.add_argument("--ask", action="store_true", help="ask about hosts that are not listed, instead of refusing them")
    text = "a port of a server inside that this machine may reach on its loopback; may be repeated"
    one.add_argument("--port", action="append", default=[], type=_port, metavar="N", help=text)
    text = "a variable of your environment to pass on; may be repeated"
    one.add_argument("--env", action="append", default=[], metavar="NAME", help=text)
    text = "a key that stays outside, added to requests to its host; may be repeated"
    one.add_argument("--secret", action="append", default=[], metavar="NAME[@HOST]", help=text)
    one.add_argument("--home", metavar="NAME", help="the private home to use (one for each preset)")
    text = "go on with the changes that an earlier run left under review in this folder"
    one.add_argument("--continue", dest="goes_on", action="store_true", help=text)
    text = "the agent and its own arguments"
    one.add_argument("agent", nargs=argparse.REMAINDER, metavar="-- AGENT [ARG…]", help=text)


def _secrets(commands: Adder) -> None:
    actions = group(commands, "secrets", "keys that stay outside, for `run` and `valueFrom`")
    one = add(actions, "set", "secrets:set_secret", "keep a key, read from the terminal or from standard input")
    one.add_argument("name", metavar="NAME", help="as its variable is called, such as ANTHROPIC_API_KEY")
    one.add_argument("--file", action="store_true", help="keep it in a file (mode 0600) even where there is a keyring")
    one = add(actions, "list", "secrets:list_secrets", "their names and where they are; never their values")
    one.add_argument("--json", action="store_true", help="print JSON")
    one = add(actions, "remove", "secrets:remove", "forget a key")
    one.add_argument("name", metavar="NAME", help="its name, as listed")


def _prefix(commands: Adder) -> None:
    actions = group(commands, "prefix", "have an agent that stays outside run its commands inside", "AGENT")
    text = (
        "write the shell prefix of Claude Code, and print how to tell it: eval $(crabpot prefix claude --workspace .)"
    )
    one = add(actions, "claude", "prefix:claude", text)
    one.add_argument("--session", metavar="KEY", help="the session key (agent:main:main, or one of the folder's own)")
    text = "set in the configuration that the session's agent works on this folder, at its own path"
    one.add_argument("--workspace", metavar="DIR", help=text)
    text = "the time limit of each command, up to limits.timeCeiling (that ceiling)"
    one.add_argument("--timeout", type=float, metavar="SECONDS", help=text)
    text = "after --: run what Claude Code hands its prefix, as the written program does"
    one.add_argument("command", nargs="*", metavar="TEXT", help=text)


def _ports(commands: Adder) -> None:
    text = "list, open or close the ports inside live sandboxes that this machine reaches on its loopback"
    one = add(commands, "ports", "ports:ports", text)
    one.add_argument("action", choices=("list", "open", "close"), help="through the gateway that runs the sandbox")
    one.add_argument("port", nargs="?", type=_port, metavar="PORT", help="for open and close: the port inside")
    one.add_argument("--session", metavar="KEY", help="whose sandbox (the only one that is live)")
    one.add_argument("--json", action="store_true", help="print JSON")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):  # noqa: PLR2004  the largest port
        raise argparse.ArgumentTypeError("must be a port from 1 to 65535")
    return int(text)
