"""What a configuration gives away that its author may not have meant, each with its fix."""

from __future__ import annotations

import os
import shlex
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from crabpot.elevation import loopback, patterns
from crabpot.elevation import rules as elevation
from crabpot.policy import rules as policy
from crabpot.spec import binds, build, network

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.binds import Surroundings

# (denied, what still does it, how)
_UNDONE = (
    ("write", "exec", "a shell writes files"),
    ("edit", "write", "writing the whole file has the same effect"),
    ("edit", "exec", "a shell edits files"),
    ("apply_patch", "write", "writing the whole file has the same effect"),
    ("read", "exec", "a shell reads files"),
    ("read", "grep", "searching for every line shows the file"),
)
_FETCHING = ("web_fetch", "web_search", "browser")

# What the host runs from a folder without being asked: planted by an agent, executed by a person's own tools.
HOST_EXECUTED = (
    ".git/hooks",
    ".git/config",
    ".githooks",
    ".husky",
    ".pre-commit-config.yaml",
    ".envrc",
    ".vscode/tasks.json",
    ".vscode/settings.json",
    ".idea",
    ".claude/settings.json",
    ".mcp.json",
    "Makefile",
    "package.json",
)
_BROAD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to look at: where it stands, what it means, what to do."""

    severity: Literal["error", "warning"]
    path: str
    message: str
    fix: str

    def __str__(self) -> str:
        """Read as `path: message; fix`."""
        return f"{self.path}: {self.message}; {self.fix}"


def check(settings: Settings, around: Surroundings) -> list[Finding]:
    """Look at the file and at every agent; what several share is told once."""
    agents = [settings.defaults, *settings.entries.values()]
    of_agents = (finding for agent in agents for finding in findings(agent, around))
    return list(dict.fromkeys((*_file(settings.file), *_commands(settings), *of_agents)))


def findings(agent: AgentSettings, around: Surroundings) -> list[Finding]:
    """Look at one agent's settings."""
    return [
        *_mode(agent),
        *_patterns(agent),
        *_undone(agent),
        *_globs(agent),
        *_network(agent),
        *_socket(agent, around),
        *_binds(agent, around),
        *_workspace(agent, around),
        *_key(agent, around),
    ]


def _key(agent: AgentSettings, around: Surroundings) -> Iterator[Finding]:
    """A key to the host that a sandbox, or another user, could read."""
    if agent.sandbox.ssh_key is None:
        return
    shown = [folder for _, folder, _ in build.shown(agent, around)]
    problem = loopback.problem_with_key(binds.expand(agent.sandbox.ssh_key, around.home), shown)
    if problem is not None:
        what, _, fix = problem.partition("; ") if "; " in problem else problem.partition(": ")
        yield _warn(agent.source("sandbox.sshKey"), f"the key {what}, and no host command will use it", fix)


def _warn(path: str, message: str, fix: str) -> Finding:
    return Finding(severity="warning", path=path, message=message, fix=fix)


def _file(file: str | None) -> Iterator[Finding]:
    if file is None:
        return
    facts = os.stat(file)
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield _warn(file, "others may write this file, and so decide", f"run `chmod go-w {file}`")
    if facts.st_uid not in (os.geteuid(), 0):
        yield _warn(file, f"this file belongs to user {facts.st_uid}", f"run `chown {os.geteuid()} {file}`")


def _commands(settings: Settings) -> Iterator[Finding]:
    """Look at what a runner on a socket may run."""
    from crabpot.runner import allowed  # noqa: PLC0415  explain need not load it

    for index, name in enumerate(settings.runner.commands):
        path = f"runner.commands[{index}]"
        wrong = allowed.check_name(name)
        if wrong:
            yield Finding(severity="error", path=path, message=f'"{name}" {wrong}', fix="take it out")
        elif name in allowed.ANYTHING:
            message = f'"{name}" can run anything: the list then holds nobody, and the container is the only wall'
            yield _warn(path, message, "take it out, unless that is what you mean")
    if not settings.runner.commands:
        message = "the list is empty, so that `crabpot runner` does not start"
        yield Finding(severity="error", path="runner.commands", message=message, fix="name a command, or take it out")


def _mode(agent: AgentSettings) -> Iterator[Finding]:
    if agent.sandbox.mode == "off":
        message = "no session is sandboxed: every call runs on the host as the gateway's user"
        yield _warn(agent.source("sandbox.mode"), message, 'use "non-main" or "all", unless you trust every sender')


def _patterns(agent: AgentSettings) -> Iterator[Finding]:
    elevated = agent.tools.elevated
    for way in elevation.ways(agent):
        wrong = patterns.problem_with(way.pattern)
        if wrong:
            message = f'the pattern "{way.pattern}" matches nothing: {wrong}'
            yield Finding(severity="error", path=way.source, message=message, fix="correct it or take it out")
            continue
        blocked = _unreachable(agent, way)
        if blocked:
            yield _warn(way.source, f'"{way.pattern}" is unreachable: {blocked}', "take it out, or change that")
        danger = patterns.danger(way.pattern)
        if danger:
            yield _warn(way.source, f'"{way.pattern}" gives the host away: {danger}', "name the exact arguments")
    if elevated.enabled and elevated.patterns and not elevated.require_approval:
        source = agent.source("tools.elevated.requireApproval")
        yield _warn(source, "matching commands run on the host and nobody is asked", "set requireApproval: true")


def _unreachable(agent: AgentSettings, way: elevation.Way) -> str | None:
    allowed = policy.decide("exec", agent, sandboxed=True)
    if not allowed.answer:
        return f"exec is not allowed ({allowed.source})"
    if agent.sandbox.mode == "off":
        return f"no session is sandboxed ({agent.source('sandbox.mode')} is off)"
    if not way.enabled:
        return f"elevated is not enabled ({agent.source('tools.elevated.enabled')})"
    if agent.tools.elevated.allow_from == ():
        return f"nobody is in {agent.source('tools.elevated.allowFrom')}"
    return None


def _undone(agent: AgentSettings) -> Iterator[Finding]:
    left = set(policy.effective(agent, sandboxed=True))
    denied = {name: policy.decide(name, agent, sandboxed=True) for name in policy.listed(agent) if name not in left}
    for name, other, how in _UNDONE:
        verdict = denied.get(name)
        if verdict and verdict.because == policy.DENIED and other in left:
            yield _warn(verdict.source, f"denies {name}, but {other} is allowed: {how}", f"deny {other} too")
    if "exec" in left and agent.sandbox.network.name.lower() != "none":
        for name in _FETCHING:
            verdict = denied.get(name)
            if verdict and verdict.because == policy.DENIED:
                message = f"denies {name}, but exec is allowed and the sandbox has a network"
                yield _warn(verdict.source, message, 'deny exec, or set network: "none"')


def _globs(agent: AgentSettings) -> Iterator[Finding]:
    lists = (("tools.allow", agent.tools.allow), ("tools.deny", agent.tools.deny))
    for path, rules in lists:
        for index, rule in enumerate(rules or ()):
            if "*" in rule and "__" not in rule and not policy.covered(rule, agent):
                source = agent.source(f"{path}[{index}]")
                yield _warn(source, f'"{rule}" matches no tool that is known', "correct it or take it out")


def _network(agent: AgentSettings) -> Iterator[Finding]:
    source = agent.source("sandbox.network")
    name = agent.sandbox.network.name.lower()
    if name == "host":
        message = "the sandbox has the host's network: every service on the loopback and the LAN"
        yield _warn(source, message, 'use "internet", or { allow: ["host:port"] }')
    elif name == "bridge":
        message = "a bridge reaches the LAN and the host on most machines"
        yield _warn(source, message, 'use "internet" for public addresses only')
    elif name != "allow" and (suspicion := network.suspicion_about_name(agent.sandbox.network.name)):
        yield _warn(source, suspicion, "correct it if that is not what you mean")
    if agent.sandbox.docker.seccomp != "default":
        message = "a seccomp profile of one's own replaces Crabpot's list"
        yield _warn(agent.source("sandbox.docker.seccomp"), message, 'use "default" unless you must')


def _socket(agent: AgentSettings, around: Surroundings) -> Iterator[Finding]:
    if agent.sandbox.backend != "socket" or agent.sandbox.socket is None:
        return
    folder = os.path.dirname(binds.expand(agent.sandbox.socket, around.home))
    source = agent.source("sandbox.backend")
    message = "who started that runner confines it: limits, network and walls of this file do not reach it"
    yield _warn(source, message, "render runner-compose prints a hardened container; explain shows what is known")
    try:
        open_to_all = os.stat(folder).st_mode & stat.S_IWOTH
    except OSError:
        return
    if open_to_all:
        message = f"others may write {folder}, and put a runner of their own there"
        yield _warn(source, message, "keep the socket in a folder of its own, mode 0750")


def _binds(agent: AgentSettings, around: Surroundings) -> Iterator[Finding]:
    for index, text in enumerate(agent.sandbox.binds):
        path = agent.source(f"sandbox.binds[{index}]")
        written, _, access = binds.parse(text)
        source = binds.expand(written, around.home)
        resolved = os.path.realpath(source)
        yield from _missing(path, source)
        if resolved != os.path.normpath(source):
            yield _warn(path, f"{source} is a link to {resolved}", "write the folder itself, so that a reader sees it")
        if len(resolved.split("/")) <= _BROAD:
            yield _warn(path, f"{resolved} is a whole top-level folder", "bind only the folder that is needed")
        if access == "rw":
            message = f"the agent may change {resolved}" + _executed_in(resolved)
            yield _warn(path, message, "use ro unless the agent must write there")


def _workspace(agent: AgentSettings, around: Surroundings) -> Iterator[Finding]:
    sandbox = agent.sandbox
    if sandbox.workspace == "none" or sandbox.mode == "off":
        return
    folder = binds.expand(agent.workspace, around.home)
    if sandbox.backend != "socket":
        yield from _missing(agent.source("workspace"), folder)
    executed = _executed_in(folder)
    if executed and sandbox.workspace == "rw":
        fix = 'look at their changes before you run them on the host, or use workspace: "ro"'
        yield _warn(agent.source("sandbox.workspace"), f"the agent may change {folder}{executed}", fix)


def _missing(path: str, folder: str) -> Iterator[Finding]:
    if not os.path.exists(folder):
        message = f"{folder} does not exist; the sandbox will not open"
        yield _warn(path, message, f"run `mkdir -p {shlex.quote(folder)}`")


def _executed_in(folder: str) -> str:
    held = [name for name in HOST_EXECUTED if os.path.lexists(os.path.join(folder, name))]
    return f", which holds files that the host executes: {', '.join(held)}" if held else ""
