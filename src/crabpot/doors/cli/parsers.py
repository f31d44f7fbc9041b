"""The parsers of the commands that print files, build images, verify or measure sandboxes, and keep what they wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.doors.cli.parsing import add, group, session

if TYPE_CHECKING:
    from crabpot.doors.cli.parsing import Adder, Parser

# As in bench/run.py, which is not in the wheel.
_PARTS = (
    *("figures", "calls", "commands", "doors", "openings", "many", "review", "search", "servers", "files", "download"),
    *("tools", "callers", "records", "endurance"),
)


def describe(commands: Adder) -> None:
    """Add the parsers."""
    _rendering(commands)
    _imaging(commands)
    _proving(commands)
    _measuring(commands)


def _rendering(commands: Adder) -> None:
    text = "print files and commands for use without Crabpot, hardened as a live sandbox is"
    artefacts = group(commands, "render", text, "ARTEFACT")
    _container(add(artefacts, "docker-run", "render:as_docker_run", "a docker run command, to paste into a shell"))
    _container(add(artefacts, "compose", "render:as_compose", "a compose file with the container as its service"))
    text = "the seccomp profile of the session's sandboxes, as docker takes it"
    session(add(artefacts, "seccomp", "render:as_seccomp", text))
    text = "the image of a runner on a socket; --out writes it with the runner's files, ready to build"
    one = add(artefacts, "runner-dockerfile", "render:as_runner_dockerfile", text)
    session(one)
    one.add_argument("--out", metavar="DIR", help="the folder to write the Dockerfile and the runner's files to")
    text = "a compose file with a runner on a socket as its service, hardened as a live sandbox is"
    one = add(artefacts, "runner-compose", "render:as_runner_compose", text)
    session(one)
    text = "the folder that runner-dockerfile --out wrote, as the compose file sees it (%(default)s)"
    one.add_argument("--context", default="./runner", metavar="DIR", help=text)
    one.add_argument("--seccomp", metavar="FILE", help="the seccomp profile (Crabpot's own, in the state folder)")
    one = add(artefacts, "apparmor", "render:as_apparmor", "an AppArmor profile, with how to load it")
    text = "for the containers of docker, or for bwrap where AppArmor keeps it from making sandboxes (%(default)s)"
    one.add_argument("--for", dest="program", choices=("docker", "bwrap"), default="docker", help=text)
    one = add(artefacts, "systemd", "render:as_systemd", "units for `crabpot serve`: a socket, and a service")
    kinds = one.add_mutually_exclusive_group()
    text = "for your own systemd, with your account (the default)"
    kinds.add_argument("--user", dest="kind", action="store_const", const="user", default="user", help=text)
    text = "for the machine's, with an account of its own"
    kinds.add_argument("--system", dest="kind", action="store_const", const="system", help=text)
    text = "with --system: the account that it runs as (crabpot); root drops each sandbox to another user"
    one.add_argument("--account", metavar="NAME", help=text)
    text = "also serve HTTP and the dashboard there, for programs with a token"
    one.add_argument("--listen", metavar="ADDRESS:PORT", help=text)
    one.add_argument("--out", metavar="DIR", help="the folder to write them to")
    text = "a gateway in a cluster: namespaces, quota, rights, network policies and its deployment"
    one = add(artefacts, "kubernetes", "render:as_kubernetes", text)
    session(one)
    one.add_argument("--image", default="crabpot:latest", metavar="IMAGE", help="the gateway's own (%(default)s)")
    one.add_argument("--sandboxes", type=int, default=100, metavar="N", help="how many at most (%(default)s)")
    one.add_argument("--claim", default="10Gi", metavar="SIZE", help="the volume of its state (%(default)s)")
    one.add_argument("--no-claim", action="store_true", help="no volume: its state ends with its pod")
    one = add(artefacts, "dockerfile", "image:as_dockerfile", "the Dockerfile of the sandbox image")
    _contents(one)


def _imaging(commands: Adder) -> None:
    text = "build the image of docker sandboxes, or list those that were built"
    actions = group(commands, "image", text)
    one = add(actions, "build", "image:build", "build the image that the configuration names")
    _contents(one)
    one.add_argument("--tag", metavar="IMAGE", help="another name for it")
    text = "with mmdebstrap from Debian packages, without an image registry"
    one.add_argument("--from-packages", action="store_true", help=text)
    one.add_argument(
        "--network", metavar="NAME", help="the network of the build: host, none or one of docker's (its bridge)"
    )
    one.add_argument("--cache", metavar="DIR", help="with --from-packages: cache the result there, and reuse it")
    text = "with --from-packages: write it to FILE, for `docker load` or `ctr images import`; no engine is needed"
    one.add_argument("--output", metavar="FILE", help=text)
    one.add_argument("--again", action="store_true", help="rebuild with today's packages")
    one.add_argument("--anyway", action="store_true", help="even if memory or disk look too small")
    one = add(actions, "list", "image:list_images", "list the images that Crabpot built")
    one.add_argument("--json", action="store_true", help="print JSON")


def _contents(one: Parser) -> None:
    session(one)
    groups, text = ("minimal", "docs", "media", "dev"), "a group of packages; may be repeated (as configured, else all)"
    one.add_argument("--group", action="append", default=[], choices=groups, metavar="GROUP", help=text)
    text = "another Debian package; may be repeated (as configured)"
    one.add_argument("--package", action="append", default=[], metavar="NAME", help=text)
    text = "the user of the sandboxes (as configured, else the workspace's owner, else you)"
    one.add_argument("--user", metavar="UID:GID", help=text)
    one.add_argument("--base", metavar="IMAGE", help="the image to build on (debian:bookworm-slim)")


def _container(one: Parser) -> None:
    session(one)
    one.add_argument("--image", metavar="IMAGE", help="the image to wrap (the sandbox image, idle)")
    one.add_argument("--command", metavar="WORDS", help="what it runs, without a shell (the image's command)")
    text = "host:container[:ro|rw[,nosuid,nodev,noexec]], ro unless written; may be repeated"
    one.add_argument("--volume", action="append", default=[], metavar="VOLUME", help=text)
    text = "port, host:container or 127.0.0.1:host:container, on the loopback only; may be repeated"
    one.add_argument("--port", action="append", default=[], metavar="PORT", help=text)
    one.add_argument("--health", metavar="COMMAND", help="shell text that succeeds while the container is healthy")
    one.add_argument("--name", default="crabpot-production", help="the container's name (%(default)s)")
    text = "the seccomp profile (Crabpot's own, written to the state folder; see: render seccomp)"
    one.add_argument("--seccomp", metavar="FILE", help=text)


def _proving(commands: Adder) -> None:
    text = "attack a sandbox as a session gets it, and report what the kernel answered; exit with 1 if a claim fails"
    one = add(commands, "verify", "verify:run", text)
    session(one)
    one.add_argument(
        "--backend", choices=("bubblewrap", "docker", "kubernetes"), help="attack this backend instead of the session's"
    )
    meaning = "only these claims or groups, where * matches anything"
    one.add_argument("--only", action="extend", nargs="+", default=[], metavar="PATTERN", help=meaning)
    one.add_argument("--json", action="store_true", help="print JSON")
    one.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    one.add_argument("--html", metavar="FILE", help="write an HTML page for an auditor")
    one = add(commands, "doctor", "doctor:doctor", "examine this machine, and print what would fix it")
    one.add_argument("--json", action="store_true", help="print JSON")


def _measuring(commands: Adder) -> None:
    one = add(commands, "bench", "bench:bench", "run the benchmark on this machine; figures are ratios within one run")
    one.add_argument("--full", action="store_true", help="everything, and at full size: 1,000 sandboxes, 200,000 files")
    text = "measure these parts alone; figures stands for all that have a figure to hold"
    one.add_argument("--only", nargs="+", choices=_PARTS, metavar="PART", help=f"{text}. {', '.join(_PARTS)}")
    meaning = "endurance: how many sandboxes are opened and closed (10000)"
    one.add_argument("--count", type=int, default=10_000, metavar="N", help=meaning)
    one.add_argument("--curve", metavar="FILE", help="endurance: write what was seen so far there, for --results")
    one.add_argument("--peers", action="store_true", help="install the peers first, each into its own environment")
    one.add_argument("--cache", metavar="DIR", help="where those environments are (~/.cache/crabpot-bench)")
    one.add_argument("--guard", action="store_true", help="fail only where a limit is missed by more than 1.6 times")
    one.add_argument("--json", action="store_true", help="print the raw results")
    one.add_argument("--results", metavar="FILE", nargs="+", help="use results printed before, without measuring")
    one.add_argument("--docs", metavar="DIR", help="write results, page and plots into this folder")


def keep(commands: Adder) -> None:
    """Add the commands about what sessions have written."""
    one = add(commands, "snapshots", "snapshots:snapshots", "keep what a session has written under a name")
    meaning = "restore puts it in the place of what was written since, and ends the session's sandbox"
    one.add_argument("action", choices=("save", "list", "restore", "remove"), help=meaning)
    one.add_argument("name", nargs="?", metavar="NAME", help="the snapshot's name")
    session(one)
    one.add_argument("--json", action="store_true", help="print JSON")
    one = add(commands, "fork", "snapshots:fork", "give new sessions a copy of what one has written")
    one.add_argument("source", metavar="FROM", help="the session to copy, which may run: it stands still meanwhile")
    one.add_argument("targets", nargs="+", metavar="TO", help="sessions that have written nothing yet")
    one.add_argument("--json", action="store_true", help="print JSON")
