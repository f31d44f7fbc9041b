"""The commands and their options. Bodies are imported when they run, so that --help is quick."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from crabpot import __version__
from crabpot.doors.cli.frame import Frame, hoisted, run

if TYPE_CHECKING:
    from collections.abc import Callable

    Adder = argparse._SubParsersAction["_Parser"]  # noqa: SLF001  argparse names no public type

_DESCRIPTION = "Keeps an AI agent's tool calls inside a pot: which tools, where they run, when one may leave."
_EPILOG = "--config FILE and --state DIR may stand before or after the command."
_COMMAND = "after --: one argument is shell text; several are quoted and joined"

_ELICIT = (
    "ask this MCP client for approvals, by elicitation; only for one that asks its person, and does not answer itself"
)


class _Parser(argparse.ArgumentParser):
    """Says which word was meant, and where a command of the user's own stands: of one, most unknown options are."""

    def error(self, message: str) -> NoReturn:
        from crabpot.suggest import closest  # noqa: PLC0415  only an error pays for it

        if message.startswith("unrecognized arguments"):
            message += "; a command of your own stands after --, as in: exec -- ls -l"
        wrong, _, known = message.partition(" (choose from ")
        if known:
            choices = known.strip(")").replace("'", "").split(", ")
            message += closest(wrong.partition("invalid choice: ")[2].strip("'"), choices)
        super().error(message)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError("must be a number from 1")
    return int(text)


def parser() -> _Parser:
    """Describe the whole command line."""
    top = _Parser(prog="crabpot", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"crabpot {__version__}")
    top.add_argument("--config", metavar="FILE", help="the configuration to read")
    top.add_argument("--state", metavar="DIR", help="the folder for sandboxes, audit log and approvals")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    _showing(commands)
    _calling(commands)
    _deciding(commands)
    _approving(commands)
    _configuring(commands)
    _keeping(commands)
    _rendering(commands)
    _listening(commands)
    _imaging(commands)
    _proving(commands)
    _measuring(commands)
    return top


def _add(commands: Adder, name: str, body: str, text: str) -> _Parser:
    """Add a command whose body is `module:function` in this package."""
    made = commands.add_parser(name, help=text, description=text, epilog=_EPILOG, allow_abbrev=False)
    made.set_defaults(body=body)
    return made


def _group(commands: Adder, name: str, text: str, metavar: str = "ACTION") -> Adder:
    """Add a command that is several."""
    made = commands.add_parser(name, help=text, description=text, epilog=_EPILOG, allow_abbrev=False)
    return made.add_subparsers(metavar=metavar, required=True)


def _calling(commands: Adder) -> None:
    one = _add(commands, "exec", "calling:execute", "run a command in the session's place; stdin passes through")
    _session(one)
    one.add_argument("--cwd", metavar="DIR", help="the folder to start in, as seen inside")
    one.add_argument("--timeout", type=float, metavar="SECONDS", help="the time limit, up to limits.timeCeiling")
    one.add_argument("--tty", action="store_true", help="give the command a terminal")
    one.add_argument("command", nargs="*", metavar="COMMAND", help=_COMMAND)
    _session(_add(commands, "shell", "calling:shell", "open an interactive shell in the session's place"))
    one = _add(commands, "call", "calling:call", "call one tool and print its result as JSON")
    one.add_argument("tool", metavar="TOOL", help="such as read, write, grep or exec")
    _session(one)
    one.add_argument("--args", default="{}", metavar="JSON", help="the arguments as a JSON object; - reads stdin")
    one = _add(commands, "cp", "copying:copy", "copy files and folders in and out; binary-safe")
    one.add_argument("source", metavar="SRC", help="a local path, or SESSION:/path")
    one.add_argument("target", metavar="DST", help="the other of the two")


def _session(one: _Parser) -> None:
    one.add_argument("--session", default="agent:main:main", metavar="KEY", help="the session key (%(default)s)")


def _keeping(commands: Adder) -> None:
    one = _add(commands, "sandboxes", "keeping:sandboxes", "list, stop, recreate or prune sandboxes")
    meaning = "stop ends it and keeps its files; recreate DELETES its private folder; prune deletes what is stale"
    one.add_argument("action", choices=("list", "stop", "recreate", "prune"), help=meaning)
    one.add_argument("name", nargs="?", metavar="NAME", help="for stop and recreate: its name or scope key")
    one.add_argument("--json", action="store_true", help="print JSON")
    one = _add(commands, "audit", "auditing:audit", "show what happened, and whether the log is whole")
    actions = one.add_subparsers(metavar="ACTION", required=True, dest="action")
    tail = actions.add_parser("tail", help="the last records")
    tail.add_argument("-n", dest="count", type=_positive, default=20, help="how many (%(default)s)")
    tail.add_argument("--json", action="store_true", help="print JSON lines")
    tail.add_argument("--session", metavar="KEY", help="only those of one session")
    show = actions.add_parser("show", help="one record, whole")
    show.add_argument("number", type=_positive, help="its number in the log")
    actions.add_parser("verify", help="look for removed or changed records")
    export = actions.add_parser("export", help="every record as JSON lines, each with its number and hash")
    export.add_argument("--after", type=_positive, default=0, metavar="NUMBER", help="only those behind this one")
    export.add_argument("--session", metavar="KEY", help="only those of one session")
    one = _add(commands, "serve", "serving:serve", "keep sandboxes alive for many clients: command line, HTTP and MCP")
    one.add_argument("--listen", metavar="127.0.0.1:PORT", help="HTTP on the loopback too, for those with a token")
    _tokens(commands)
    one = _add(commands, "mcp", "clients:mcp", "serve an MCP client on standard input and output")
    _session(one)
    one.add_argument("--sender", help="who the client speaks for, for tools.elevated.allowFrom")
    one.add_argument("--elicit", action="store_true", help=_ELICIT)
    one.add_argument(
        "--print-config",
        metavar="CLIENT",
        choices=("claude-code", "codex", "openclaw", "generic"),
        help="print what to paste into a client's configuration instead: %(choices)s",
    )


def _listening(commands: Adder) -> None:
    text = "listen on a Unix socket and run listed commands and tools in some folders, for gateways and plain clients"
    one = _add(commands, "runner", "running:run", text)
    text = "where to listen; the file is for the owner and the group"
    one.add_argument("--socket", required=True, metavar="PATH", help=text)
    text = "the folders that can be reached; the first is where commands start"
    one.add_argument("--root", required=True, nargs="+", action="extend", metavar="DIR", help=text)
    text = "the commands that may run (runner.commands of the configuration)"
    one.add_argument("--allow", nargs="+", action="extend", metavar="NAME", help=text)
    text = "how long a client may be silent in the middle of a request (%(default)g)"
    one.add_argument("--patience", type=float, default=30.0, metavar="SECONDS", help=text)


def _tokens(commands: Adder) -> None:
    actions = _group(commands, "tokens", "who may come in by HTTP on the loopback")
    one = _add(actions, "list", "tokens:list_tokens", "list the tokens; their secrets are kept nowhere")
    one.add_argument("--json", action="store_true", help="print JSON")
    one = _add(actions, "add", "tokens:add", "make a token and print its secret, once")
    one.add_argument("name", metavar="NAME", help="how it is called in the audit log")
    one.add_argument("--role", choices=("operator", "agent", "observer"), default="agent", help="%(default)s")
    one.add_argument(
        "--session", action="append", default=[], metavar="KEY", help="a session of an agent; * stands for anything"
    )
    one.add_argument("--sender", help="who an agent speaks for, for tools.elevated.allowFrom")
    one.add_argument("--elicit", action="store_true", help=_ELICIT)
    for name, text in (("rotate", "give it a new secret; the old one ends at once"), ("remove", "let it open nothing")):
        one = _add(actions, name, f"tokens:{name}", text)
        one.add_argument("name", metavar="NAME", help="its name")


def _showing(commands: Adder) -> None:
    text = "a tour: an agent's session and a dozen attacks, live, on the embedded backend"
    _add(commands, "demo", "demo:demo", text)


def _rendering(commands: Adder) -> None:
    text = "print files and commands for use without Crabpot, hardened as a live sandbox is"
    artefacts = _group(commands, "render", text, "ARTEFACT")
    _container(_add(artefacts, "docker-run", "rendering:as_docker_run", "a docker run command, to paste into a shell"))
    _container(_add(artefacts, "compose", "rendering:as_compose", "a compose file with the container as its service"))
    text = "the seccomp profile of the session's sandboxes, as docker takes it"
    _session(_add(artefacts, "seccomp", "rendering:as_seccomp", text))
    text = "the image of a runner on a socket; --out writes it with the runner's files, ready to build"
    one = _add(artefacts, "runner-dockerfile", "rendering:as_runner_dockerfile", text)
    _session(one)
    one.add_argument("--out", metavar="DIR", help="the folder to write the Dockerfile and the runner's files to")
    text = "a compose file with a runner on a socket as its service, hardened as a live sandbox is"
    one = _add(artefacts, "runner-compose", "rendering:as_runner_compose", text)
    _session(one)
    text = "the folder that runner-dockerfile --out wrote, as the compose file sees it (%(default)s)"
    one.add_argument("--context", default="./runner", metavar="DIR", help=text)
    one.add_argument("--seccomp", metavar="FILE", help="the seccomp profile (Crabpot's own, in the state folder)")
    _add(artefacts, "apparmor", "rendering:as_apparmor", "an AppArmor profile, with how to load it")
    one = _add(artefacts, "dockerfile", "imaging:as_dockerfile", "the Dockerfile of the sandbox image")
    _contents(one)


def _imaging(commands: Adder) -> None:
    text = "make the image of docker sandboxes, or list those that were made"
    actions = _group(commands, "image", text)
    one = _add(actions, "build", "imaging:build", "make the image that the configuration names")
    _contents(one)
    one.add_argument("--tag", metavar="IMAGE", help="another name for it")
    text = "by mmdebstrap from Debian's packages, without any registry of images"
    one.add_argument("--from-packages", action="store_true", help=text)
    one.add_argument(
        "--network", metavar="NAME", help="the network of the build: host, none or one of docker's (its bridge)"
    )
    one.add_argument("--cache", metavar="DIR", help="with --from-packages: keep what was made there, and use it again")
    one.add_argument("--again", action="store_true", help="make it anew, with today's packages")
    one.add_argument("--anyway", action="store_true", help="also if memory or disk look too small")
    one = _add(actions, "list", "imaging:list_images", "list the images that Crabpot made")
    one.add_argument("--json", action="store_true", help="print JSON")


def _contents(one: _Parser) -> None:
    _session(one)
    groups, text = ("minimal", "docs", "media", "dev"), "a group of packages; may be repeated (as configured, else all)"
    one.add_argument("--group", action="append", default=[], choices=groups, metavar="GROUP", help=text)
    text = "a further Debian package; may be repeated (as configured)"
    one.add_argument("--package", action="append", default=[], metavar="NAME", help=text)
    text = "whom sandboxes run as (as configured, else the workspace's owner, else you)"
    one.add_argument("--user", metavar="UID:GID", help=text)
    one.add_argument("--base", metavar="IMAGE", help="the image to build on (debian:bookworm-slim)")


def _container(one: _Parser) -> None:
    _session(one)
    one.add_argument("--image", metavar="IMAGE", help="the image to wrap (the sandbox image, asleep)")
    one.add_argument("--command", metavar="WORDS", help="what it runs, without a shell (what the image says)")
    text = "host:container[:ro|rw[,nosuid,nodev,noexec]], ro unless written; may be repeated"
    one.add_argument("--volume", action="append", default=[], metavar="VOLUME", help=text)
    text = "port, host:container or 127.0.0.1:host:container, on the loopback only; may be repeated"
    one.add_argument("--port", action="append", default=[], metavar="PORT", help=text)
    one.add_argument("--health", metavar="COMMAND", help="shell text that succeeds while the container is well")
    one.add_argument("--name", default="crabpot-production", help="the container's name (%(default)s)")
    text = "the seccomp profile (Crabpot's own, written to the state folder; see: render seccomp)"
    one.add_argument("--seccomp", metavar="FILE", help=text)


def _proving(commands: Adder) -> None:
    text = "attack a sandbox as a session gets it, and report what the kernel answered; exit with 1 if a claim fails"
    one = _add(commands, "verify", "verifying:run", text)
    _session(one)
    one.add_argument("--backend", choices=("bubblewrap", "docker"), help="attack this backend instead of the session's")
    meaning = "only these claims or groups, where * stands for anything"
    one.add_argument("--only", nargs="+", default=[], metavar="PATTERN", help=meaning)
    one.add_argument("--json", action="store_true", help="print JSON")
    one.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    one.add_argument("--html", metavar="FILE", help="write a page for an auditor")
    one = _add(commands, "doctor", "doctoring:doctor", "examine this machine, and say what would mend it")
    one.add_argument("--json", action="store_true", help="print JSON")


def _measuring(commands: Adder) -> None:
    one = _add(commands, "bench", "benching:bench", "measure on this machine, as ratios in one run")
    one.add_argument("--full", action="store_true", help="everything: every tool and door, 500 sandboxes, 64 callers")
    one.add_argument(
        "--peers", action="store_true", help="install the peers first, each into an environment of its own"
    )
    one.add_argument("--cache", metavar="DIR", help="where those environments are (~/.cache/crabpot-bench)")
    one.add_argument("--guard", action="store_true", help="fail only where a figure is missed by far")
    one.add_argument("--json", action="store_true", help="print the raw results")
    one.add_argument("--results", metavar="FILE", nargs="+", help="take results that were printed, measure nothing")
    one.add_argument("--docs", metavar="DIR", help="write results, page and plots into this folder")


def _deciding(commands: Adder) -> None:
    one = _add(
        commands,
        "explain",
        "decisions:explain",
        "say which tools a session may use, where they run, and when a command may leave",
    )
    one.add_argument("--session", action="append", default=[], metavar="KEY", help="a session key; may be repeated")
    one.add_argument("--agent", metavar="ID", help="only sessions of this agent")
    one.add_argument("--sender", help="who sends the command, for tools.elevated.allowFrom")
    one.add_argument("--live", action="store_true", help="open its sandbox, and compare what the kernel says of it")
    one.add_argument("--connect", metavar="HOST:PORT", help="say whether the session could connect there, and why")
    one.add_argument("--json", action="store_true", help="print JSON")
    one.add_argument("command", nargs="*", metavar="COMMAND", help=_COMMAND)
    one = _add(commands, "check", "decisions:check", "look for what the configuration gives away, each with its fix")
    one.add_argument("--strict", action="store_true", help="exit with 1 on warnings (errors exit with 2 always)")


def _approving(commands: Adder) -> None:
    actions = _group(commands, "approvals", "what waits for an operator's word, and giving it")
    one = _add(actions, "list", "approving:list_requests", "what waits for an answer, of every gateway of this state")
    one.add_argument("--json", action="store_true", help="print JSON")
    one = _add(actions, "show", "approving:show_request", "one request, whole, as JSON")
    one.add_argument("id", metavar="ID", help="its id, as listed")
    one = _add(actions, "allow", "approving:allow", "agree, for this once unless more is said")
    one.add_argument("id", metavar="ID", help="its id, as listed")
    lasting = one.add_mutually_exclusive_group()
    lasting.add_argument("--once", action="store_true", help="this one alone")
    lasting.add_argument("--session", action="store_true", help="the very same again, as long as the gateway runs")
    lasting.add_argument("--minutes", type=_positive, metavar="N", help="the very same again, for N minutes")
    lasting.add_argument("--list", action="store_true", help="for a connection: and write it into the configuration")
    one.add_argument("--keep", action="store_true", help="with --session or --minutes: also after a restart")
    one = _add(actions, "deny", "approving:deny", "refuse")
    one.add_argument("id", metavar="ID", help="its id, as listed")
    one.add_argument("--reason", metavar="TEXT", help="why; the agent is told")
    actions = _group(commands, "leases", "what was allowed for longer than once")
    one = _add(actions, "list", "approving:list_leases", "the leases in force")
    one.add_argument("--json", action="store_true", help="print JSON")
    one = _add(actions, "revoke", "approving:revoke", "end a lease at once")
    one.add_argument("id", metavar="ID", help="its id, as listed")


def _configuring(commands: Adder) -> None:
    _add(commands, "init", "configuring:init", "write a commented configuration to start from")
    actions = _group(commands, "config", "read or change one value of the configuration")
    one = _add(actions, "get", "configuring:get", "print one value, as written or by default")
    one.add_argument("path", metavar="PATH", help="such as agents.defaults.sandbox.mode or tools.deny[1]")
    one = _add(
        actions,
        "set",
        "configuring:set_value",
        "change one value in place; comments, order and neighbours stay; refused if the file would not load",
    )
    one.add_argument("path", metavar="PATH", help="such as tools.deny[1]; tools.deny[+] appends")
    one.add_argument("value", metavar="VALUE", help="JSON5, or a bare word")


def main() -> NoReturn:
    """Run the program; no error of ours or of the user's ends in a traceback."""
    sys.exit(run(_invoke, hoisted(sys.argv[1:])))


def _invoke(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    module, _, function = options.body.partition(":")
    body: Callable[[Frame, Any], int] = getattr(importlib.import_module(f"crabpot.doors.cli.{module}"), function)
    return body(Frame(config=options.config, state=options.state), options)
