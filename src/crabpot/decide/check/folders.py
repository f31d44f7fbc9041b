"""Check the host's files and folders: the configuration itself, what sandboxes see, keys and sockets."""

from __future__ import annotations

import os
import shlex
import stat
from typing import TYPE_CHECKING

from crabpot.decide import gate
from crabpot.decide.check.finding import warn
from crabpot.decide.ssh_key import problem_with_key
from crabpot.spec import binds, build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.decide.check.finding import Finding
    from crabpot.settings import AgentSettings
    from crabpot.spec.binds import Surroundings

_BROAD = 2
_MOST_NAMED = 12


def findings(agent: AgentSettings, around: Surroundings) -> Iterator[Finding]:
    """Return the findings for the files and folders that one agent's settings name."""
    yield from _socket(agent, around)
    yield from _binds(agent, around)
    yield from _workspace(agent, around)
    yield from _key(agent, around)


def of_file(file: str | None) -> Iterator[Finding]:
    """Return the findings for who may change the configuration."""
    if file is None:
        return
    facts = os.stat(file)
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield warn(file, "others may write this file, and so change every decision", f"run `chmod go-w {file}`")
    if facts.st_uid not in (os.geteuid(), 0):
        yield warn(file, f"this file belongs to user {facts.st_uid}", f"run `chown {os.geteuid()} {file}`")


def _key(agent: AgentSettings, around: Surroundings) -> Iterator[Finding]:
    """Return a finding if a sandbox or another user could read the key to the host."""
    if agent.sandbox.ssh_key is None:
        return
    shown = [folder for _, folder, _ in build.shown(agent, around)]
    problem = problem_with_key(binds.expand(agent.sandbox.ssh_key, around.home), shown)
    if problem is not None:
        what, _, fix = problem.partition("; ") if "; " in problem else problem.partition(": ")
        yield warn(agent.source("sandbox.sshKey"), f"the key {what}, and no host command will use it", fix)


def _socket(agent: AgentSettings, around: Surroundings) -> Iterator[Finding]:
    if agent.sandbox.backend != "socket" or agent.sandbox.socket is None:
        return
    folder = os.path.dirname(binds.expand(agent.sandbox.socket, around.home))
    source = agent.source("sandbox.backend")
    message = "that runner is confined by whoever started it: the limits, network and walls of this file do not apply"
    fix = "crabpot render runner-compose prints a hardened container; crabpot explain shows what is known"
    yield warn(source, message, fix)
    try:
        open_to_all = os.stat(folder).st_mode & stat.S_IWOTH
    except OSError:
        return
    if open_to_all:
        message = f"others may write {folder}, and put a runner of their own there"
        yield warn(source, message, "keep the socket in a folder of its own, mode 0750")


def _binds(agent: AgentSettings, around: Surroundings) -> Iterator[Finding]:
    for index, text in enumerate(agent.sandbox.binds):
        path = agent.source(f"sandbox.binds[{index}]")
        written, _, access = binds.parse(text)
        source = binds.expand(written, around.home)
        resolved = os.path.realpath(source)
        yield from _missing(path, source)
        if resolved != os.path.normpath(source):
            yield warn(path, f"{source} is a link to {resolved}", "write the folder itself, so that a reader sees it")
        if len(resolved.split("/")) <= _BROAD:
            yield warn(path, f"{resolved} is a whole top-level folder", "bind only the folder that is needed")
        if access == "rw":
            message = f"the agent may change {resolved}" + _executed_in(resolved)
            yield warn(path, message, "use ro unless the agent must write there")


def _workspace(agent: AgentSettings, around: Surroundings) -> Iterator[Finding]:
    sandbox = agent.sandbox
    if sandbox.workspace_at == "same" and not build.shown_at_own_path(sandbox) and sandbox.mode != "off":
        message = f'"same" has no effect with workspace "{sandbox.workspace}": the folder at /workspace is private'
        yield warn(agent.source("sandbox.workspaceAt"), message, 'use workspace: "rw", or take it out')
    if sandbox.workspace == "none" or sandbox.mode == "off":
        return
    folder = binds.expand(agent.workspace, around.home)
    if sandbox.backend != "socket":
        yield from _missing(agent.source("workspace"), folder)
    executed = _executed_in(folder)
    if executed and sandbox.workspace == "rw":
        fix = 'look at their changes before you run them on the host, or use workspace: "review" or "ro"'
        yield warn(agent.source("sandbox.workspace"), f"the agent may change {folder}{executed}", fix)


def _missing(path: str, folder: str) -> Iterator[Finding]:
    if not os.path.exists(folder):
        message = f"{folder} does not exist; the sandbox will not open"
        yield warn(path, message, f"run `mkdir -p {shlex.quote(folder)}`")


def _executed_in(folder: str) -> str:
    held = [name for name in gate.named() if os.path.lexists(os.path.join(folder, name))]
    more = f" and {len(held) - _MOST_NAMED} more" if len(held) > _MOST_NAMED else ""
    return f", which holds files that the host executes: {', '.join(held[:_MOST_NAMED])}{more}" if held else ""
