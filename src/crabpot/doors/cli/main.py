"""The commands and their options. Bodies are imported when they run, so that --help is fast."""

from __future__ import annotations

import gc
import importlib
import sys
from argparse import SUPPRESS
from typing import TYPE_CHECKING, Any, NoReturn

from crabpot import __version__
from crabpot.doors.cli import parsers, review_parsers, run_parsers, server_parsers
from crabpot.doors.cli.frame import OF_ITSELF, Frame, command_of, hoisted, run
from crabpot.doors.cli.parsing import EPILOG, Outline, Parser, add, group, positive, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.doors.cli.parsing import Adder

_DESCRIPTION = "Keeps an AI agent's tool calls inside a pot: which tools, where they run, when one may leave."
_COMMAND = "after --: one argument is shell text; several are quoted and joined"

_GARBAGE_AFTER = 10_000

_ELICIT = (
    "ask this MCP client for approvals, by elicitation; only for a client that asks its user and never answers itself"
)


def parser(command: str | None = None) -> Parser:
    """Return the parser: the part that has this command, all of it if there is no such command, or only its help."""
    top = Parser(prog="crabpot", description=_DESCRIPTION, epilog=EPILOG, allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"crabpot {__version__}")
    top.add_argument("--config", metavar="FILE", help="the configuration to read")
    top.add_argument("--state", metavar="DIR", help="the folder for sandboxes, the audit log and approvals")
    kind = Outline if command in OF_ITSELF else Parser
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=kind)
    # Building all parsers takes longer than many commands.
    for describe in [part for part, names in _PARTS.items() if command in names] or _PARTS:
        describe(commands)
    return top


def _calling(commands: Adder) -> None:
    one = add(commands, "exec", "exec:execute", "run a command where the session is placed; stdin passes through")
    session(one)
    one.add_argument("--cwd", metavar="DIR", help="the folder to start in, as seen inside")
    one.add_argument("--timeout", type=float, metavar="SECONDS", help="the time limit, up to limits.timeCeiling")
    one.add_argument("--tty", action="store_true", help="give the command a terminal")
    one.add_argument("command", nargs="*", metavar="COMMAND", help=_COMMAND)
    session(add(commands, "shell", "exec:shell", "open an interactive shell where the session is placed"))
    one = add(commands, "call", "exec:call", "call one tool and print its result as JSON")
    one.add_argument("tool", metavar="TOOL", help="such as read, write, grep or exec")
    session(one)
    one.add_argument("--args", default="{}", metavar="JSON", help="the arguments as a JSON object; - reads stdin")
    one = add(commands, "cp", "cp:copy", "copy files and folders in and out; binary-safe")
    one.add_argument("source", metavar="SRC", help="a local path, or SESSION:/path")
    one.add_argument("target", metavar="DST", help="the other one")


def _operating(commands: Adder) -> None:
    one = add(commands, "sandboxes", "sandboxes:sandboxes", "list, stop, recreate or prune sandboxes")
    meaning = "stop ends it and keeps its files; recreate DELETES its private folder; prune deletes what is stale"
    one.add_argument("action", choices=("list", "stop", "recreate", "prune"), help=meaning)
    one.add_argument("name", nargs="?", metavar="NAME", help="for stop and recreate: its name or scope key")
    one.add_argument("--json", action="store_true", help="print JSON")
    one = add(commands, "audit", "audit:audit", "show what happened, and verify the log")
    actions = one.add_subparsers(metavar="ACTION", required=True, dest="action")
    tail = actions.add_parser("tail", help="the last records")
    tail.add_argument("-n", dest="count", type=positive, default=20, help="how many (%(default)s)")
    tail.add_argument("--json", action="store_true", help="print JSON lines")
    tail.add_argument("--session", metavar="KEY", help="only those of one session")
    show = actions.add_parser("show", help="one record in full")
    show.add_argument("number", type=positive, help="its number in the log")
    actions.add_parser("verify", help="check for removed or changed records")
    replay = actions.add_parser("replay", help="a session as a story, with what each call changed under review")
    replay.add_argument("session", metavar="SESSION", help="its key")
    replay.add_argument("--json", action="store_true", help="print JSON")
    export = actions.add_parser("export", help="every record as JSON lines, each with its number and hash")
    export.add_argument("--after", type=positive, default=0, metavar="NUMBER", help="only those after this number")
    export.add_argument("--session", metavar="KEY", help="only those of one session")
    one = add(commands, "serve", "serve:serve", "keep sandboxes alive for many clients: command line, HTTP and MCP")
    text = "stop: end the gateway that serves or lingers; reload: have it read its configuration again"
    one.add_argument("action", nargs="?", choices=("stop", "reload"), help=text)
    one.add_argument("--lingering", type=int, help=SUPPRESS)
    text = "also serve HTTP there, with tokens: on the loopback, or with the next two beyond it"
    one.add_argument("--listen", metavar="ADDRESS:PORT", help=text)
    one.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate; read again when it changes")
    one.add_argument("--tls-key", metavar="FILE", help="and with its private key")
    one = add(commands, "purge", "purge:purge", "remove everything that Crabpot keeps; asks first")
    one.add_argument("--yes", action="store_true", help="do not ask")
    _tokens(commands)
    one = add(commands, "e2b", "e2b:e2b", "say where programs that use the E2B SDKs find a gateway, or start one")
    one.add_argument("--print-env", action="store_true", help="print it for a shell: eval $(crabpot e2b --print-env)")
    one.add_argument("--agent", default="main", metavar="ID", help="whose policy and settings hold (%(default)s)")
    one = add(commands, "mcp", "mcp:mcp", "serve an MCP client on standard input and output")
    session(one)
    one.add_argument("--sender", help="who the client speaks for, for tools.elevated.allowFrom")
    one.add_argument("--elicit", action="store_true", help=_ELICIT)
    text = "send each result as structured data too; clients then show the model that instead of the text"
    one.add_argument("--structured", action="store_true", help=text)
    text = "work on this folder, at its own path, as in --workspace . where the client starts us"
    one.add_argument("--workspace", metavar="DIR", help=text)
    ways = one.add_mutually_exclusive_group()
    ways.add_argument("--review", action="store_true", help="with --workspace: over a layer (default); see changes")
    ways.add_argument("--direct", action="store_true", help="with --workspace: change the folder itself")
    one.add_argument(
        "--print-config",
        metavar="CLIENT",
        choices=("claude-code", "codex", "codex-environment", "openclaw", "generic"),
        help="print what to paste into a client's configuration instead: %(choices)s",
    )


def _listening(commands: Adder) -> None:
    text = "listen on a Unix socket and run listed commands and tools in given folders, for gateways and plain clients"
    one = add(commands, "runner", "runner:run", text)
    text = "where to listen; the file is for the owner and the group"
    one.add_argument("--socket", required=True, metavar="PATH", help=text)
    text = "the folders that commands can reach; they start in the first"
    one.add_argument("--root", required=True, nargs="+", action="extend", metavar="DIR", help=text)
    text = "the commands that may run (runner.commands of the configuration)"
    one.add_argument("--allow", nargs="+", action="extend", metavar="NAME", help=text)
    text = "how long a client may be silent in the middle of a request (%(default)g)"
    one.add_argument("--patience", type=float, default=30.0, metavar="SECONDS", help=text)
    text = "start even if the kernel has no Landlock; only safe in a container that contains nothing but the roots"
    one.add_argument("--without-landlock", action="store_true", help=text)


def _tokens(commands: Adder) -> None:
    actions = group(commands, "tokens", "list, add, rotate or remove tokens for HTTP on the loopback")
    one = add(actions, "list", "tokens:list_tokens", "list the tokens; their secrets are not stored")
    one.add_argument("--json", action="store_true", help="print JSON")
    one = add(actions, "add", "tokens:add", "create a token and print its secret, once")
    one.add_argument("name", metavar="NAME", help="its name in the audit log")
    one.add_argument("--role", choices=("operator", "agent", "observer"), default="agent", help="%(default)s")
    one.add_argument(
        "--session", action="append", default=[], metavar="KEY", help="a session of an agent; * matches anything"
    )
    one.add_argument("--sender", help="who an agent speaks for, for tools.elevated.allowFrom")
    one.add_argument("--elicit", action="store_true", help=_ELICIT)
    text = "let an agent's calls run on the host where its session is placed there; without it they are denied"
    one.add_argument("--allow-host", action="store_true", help=text)
    for name, text in (("rotate", "replace its secret; the old one ends at once"), ("remove", "remove a token")):
        one = add(actions, name, f"tokens:{name}", text)
        one.add_argument("name", metavar="NAME", help="its name")


def _demo(commands: Adder) -> None:
    text = "a tour: an agent's session and a dozen attacks, live, on the embedded backend"
    add(commands, "demo", "demo:demo", text)


def _deciding(commands: Adder) -> None:
    one = add(
        commands,
        "explain",
        "explain:explain",
        "show which tools a session may use, where they run, and which commands may run on the host",
    )
    one.add_argument("--session", action="append", default=[], metavar="KEY", help="a session key; may be repeated")
    one.add_argument("--agent", metavar="ID", help="only sessions of this agent")
    one.add_argument("--sender", help="who sends the command, for tools.elevated.allowFrom")
    one.add_argument("--live", action="store_true", help="open its sandbox, and compare the kernel's facts")
    one.add_argument("--connect", metavar="HOST:PORT", help="show whether the session could connect there, and why")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.add_argument("command", nargs="*", metavar="COMMAND", help=_COMMAND)
    one = add(commands, "check", "explain:check", "find what the configuration exposes, each with its fix")
    one.add_argument("--strict", action="store_true", help="exit with 1 on warnings (errors always exit with 2)")


def _approving(commands: Adder) -> None:
    actions = group(commands, "approvals", "list and answer requests for approval")
    one = add(actions, "list", "approvals:list_requests", "the pending requests of every gateway of this state folder")
    one.add_argument("--json", action="store_true", help="print JSON")
    text = "ask here, one after the other, what waits while an agent owns its own terminal"
    add(actions, "watch", "watch:watch", text)
    one = add(actions, "show", "approvals:show_request", "one request in full, as JSON")
    one.add_argument("id", metavar="ID", help="its id, as listed")
    one = add(actions, "allow", "approvals:allow", "allow a request, once unless an option says more")
    one.add_argument("id", metavar="ID", help="its id, as listed")
    lasting = one.add_mutually_exclusive_group()
    lasting.add_argument("--once", action="store_true", help="this request only (default)")
    lasting.add_argument("--session", action="store_true", help="and the very same again, until the gateway ends")
    lasting.add_argument("--minutes", type=positive, metavar="N", help="and the very same again, for N minutes")
    lasting.add_argument(
        "--list", action="store_true", help="for a connection: and add it to the agent's entry in the configuration"
    )
    one.add_argument("--keep", action="store_true", help="with --session or --minutes: keep the lease after a restart")
    one.add_argument("--answer", metavar="JSON", help="for a question of an MCP server: the form, filled in")
    one = add(actions, "deny", "approvals:deny", "deny a request")
    one.add_argument("id", metavar="ID", help="its id, as listed")
    one.add_argument("--reason", metavar="TEXT", help="the reason, which the agent sees")
    actions = group(commands, "leases", "list and revoke leases, the approvals that last")
    one = add(actions, "list", "approvals:list_leases", "the leases in force")
    one.add_argument("--json", action="store_true", help="print JSON")
    one = add(actions, "revoke", "approvals:revoke", "end a lease at once")
    one.add_argument("id", metavar="ID", help="its id, as listed")


def _configuring(commands: Adder) -> None:
    add(commands, "init", "config:init", "write a commented configuration to start from")
    actions = group(commands, "config", "read or change one value of the configuration")
    one = add(actions, "get", "config:get", "print one value, as written or by default")
    one.add_argument("path", metavar="PATH", help="a path such as agents.defaults.sandbox.mode or tools.deny[1]")
    one = add(
        actions,
        "set",
        "config:set_value",
        "change one value in place, keeping comments and order; refused if the file would not load",
    )
    one.add_argument("path", metavar="PATH", help="a path such as tools.deny[1]; tools.deny[+] appends")
    one.add_argument("value", metavar="VALUE", help="JSON5, or a bare word")
    actions = group(commands, "import", "turn another program's configuration into one of Crabpot's", "FORMAT")
    text = "print what an openclaw.json means here; what was left out, and why, goes to standard error"
    one = add(actions, "openclaw", "importing:from_openclaw", text)
    one.add_argument("file", metavar="FILE", help="the openclaw.json")
    text = "propose the least configuration that a session needed, from its audit records"
    one = add(commands, "learn", "learn:learn", text)
    session(one)
    one.add_argument("--write", action="store_true", help="set the proposed values, keeping comments and order")
    one.add_argument("--json", action="store_true", help="print JSON")


_PARTS: dict[Callable[[Adder], None], tuple[str, ...]] = {
    _demo: ("demo",),
    _calling: ("exec", "shell", "call", "cp"),
    _deciding: ("explain", "check"),
    _approving: ("approvals", "leases"),
    _configuring: ("init", "config", "import", "learn"),
    _operating: ("sandboxes", "audit", "serve", "purge", "tokens", "e2b", "mcp"),
    review_parsers.describe: ("changes",),
    parsers.keep: ("snapshots", "fork"),
    _listening: ("runner",),
    run_parsers.describe: ("run", "ports", "secrets", "prefix"),
    server_parsers.describe: ("servers", "import"),
    parsers.describe: ("render", "image", "verify", "doctor", "bench"),
}


def main() -> NoReturn:
    """Run the program; no expected error ends in a traceback."""
    # Nearly every object made at start lives until the end. By default they would be collected a hundred times.
    gc.set_threshold(_GARBAGE_AFTER)
    code = run(invoke, hoisted(sys.argv[1:]))
    # Nor when the interpreter shuts down.
    gc.freeze()
    sys.exit(code)


def invoke(arguments: list[str]) -> int:
    """Carry out one command line."""
    options = parser(command_of(arguments)).parse_args(arguments)
    module, _, function = options.body.partition(":")
    body: Callable[[Frame, Any], int] = getattr(
        importlib.import_module(f"crabpot.doors.cli.commands.{module}"), function
    )
    return body(Frame(config=options.config, state=options.state), options)
