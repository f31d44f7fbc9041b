"""Check the values of a configuration: modes, patterns, tools, networks and the runner's commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.decide import elevation, known_programs, patterns, policy
from crabpot.decide.check.finding import Finding, warn
from crabpot.settings import Kubernetes
from crabpot.spec import network

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.settings import AgentSettings, Settings

# (denied tool, the tool that still has its effect, how)
_UNDONE = (
    ("write", "exec", "a shell writes files"),
    ("edit", "write", "writing the whole file has the same effect"),
    ("edit", "exec", "a shell edits files"),
    ("apply_patch", "write", "writing the whole file has the same effect"),
    ("read", "exec", "a shell reads files"),
    ("read", "grep", "searching for every line shows the file"),
)
_FETCHING = ("web_fetch", "web_search", "browser")


def findings(agent: AgentSettings) -> Iterator[Finding]:
    """Return the findings for one agent's settings."""
    yield from _mode(agent)
    yield from _warm(agent)
    yield from _patterns(agent)
    yield from _undone(agent)
    yield from _globs(agent)
    yield from _network(agent)
    yield from _kubernetes(agent)


def of_gateway(settings: Settings) -> Iterator[Finding]:
    """Return the findings for the limits on sandboxes."""
    most, each = settings.gateway.max_sandboxes, settings.gateway.max_sandboxes_per_agent
    if each > most:
        message = f"one agent may have {each} sandboxes, but there are at most {most} (gateway.maxSandboxes)"
        yield warn("gateway.maxSandboxesPerAgent", message, "lower it, so that one agent cannot have all of them")


def of_runner(settings: Settings) -> Iterator[Finding]:
    """Return the findings for the commands of a runner on a socket."""
    from crabpot.runner.socket import allowed  # noqa: PLC0415  explain does not need it

    for index, name in enumerate(settings.runner.commands):
        path = f"runner.commands[{index}]"
        wrong = allowed.check_name(name)
        if wrong:
            yield Finding(severity="error", path=path, message=f'"{name}" {wrong}', fix="take it out")
        elif name in allowed.ANYTHING:
            message = f'"{name}" can run anything, so the list restricts nothing and the container is the only wall'
            yield warn(path, message, "take it out, unless that is what you mean")
    if not settings.runner.commands:
        message = "the list is empty, so `crabpot runner` does not start"
        yield Finding(severity="error", path="runner.commands", message=message, fix="name a command, or take it out")


def _mode(agent: AgentSettings) -> Iterator[Finding]:
    if agent.sandbox.mode == "off":
        message = "no session is sandboxed: every call runs on the host as the gateway's user"
        yield warn(agent.source("sandbox.mode"), message, 'use "non-main" or "all", unless you trust every sender')
    if agent.sandbox.mode == "non-main":
        message = "main sessions run on the host as the gateway's user, and `crabpot exec` uses one by default"
        yield warn(agent.source("sandbox.mode"), message, 'use "all", unless you trust whoever writes to them')


def _warm(agent: AgentSettings) -> Iterator[Finding]:
    if agent.sandbox.workspace == "review" and agent.sandbox.warm:
        message = "keeps no sandbox ready: a layer over a folder under review belongs to one session from the start"
        yield warn(agent.source("sandbox.warm"), message, "take it out")


def _patterns(agent: AgentSettings) -> Iterator[Finding]:
    elevated = agent.tools.elevated
    for rule in elevation.rules(agent):
        wrong = patterns.problem_with(rule.pattern)
        if wrong:
            message = f'the pattern "{rule.pattern}" matches nothing: {wrong}'
            yield Finding(severity="error", path=rule.source, message=message, fix="correct it or take it out")
            continue
        blocked = _unreachable(agent, rule)
        if blocked:
            yield warn(rule.source, f'"{rule.pattern}" is unreachable: {blocked}', "take it out, or change that")
        yield from _handed_over(rule)
    if elevated.enabled and elevated.patterns and not elevated.require_approval:
        source = agent.source("tools.elevated.requireApproval")
        yield warn(source, "matching commands run on the host without approval", "set requireApproval: true")


def _handed_over(rule: elevation.ElevationRule) -> Iterator[Finding]:
    danger = known_programs.danger(rule.pattern)
    needed = known_programs.needs(tuple(rule.pattern.split())).credentials
    if rule.confine == "host":
        message = f'"{rule.pattern}" runs unconfined (confine: "host"): it may do whatever the gateway\'s user may'
        yield warn(rule.source, message, 'take confine out; name what it needs in "writes" and "credentials"')
    if "docker" in (*needed, *rule.credentials):
        message = f'"{rule.pattern}" gives the host away: the docker engine\'s socket can mount the whole host'
        yield warn(rule.source, message, "take it out, unless that is what you mean")
    elif danger and rule.confine == "host":
        yield warn(rule.source, f'"{rule.pattern}" gives the host away: {danger}', "name the exact arguments")
    elif danger:
        message = f'"{rule.pattern}" runs more than it says, in a guard on the host: {danger}'
        yield warn(rule.source, message, "name the exact arguments")


def _unreachable(agent: AgentSettings, rule: elevation.ElevationRule) -> str | None:
    allowed = policy.decide("exec", agent, sandboxed=True)
    if not allowed.answer:
        return f"exec is not allowed ({allowed.source})"
    if agent.sandbox.mode == "off":
        return f"no session is sandboxed ({agent.source('sandbox.mode')} is off)"
    if not rule.enabled:
        return f"elevated is not enabled ({agent.source('tools.elevated.enabled')})"
    if agent.sandbox.workspace == "review" and not known_programs.leaves_review(tuple(rule.pattern.split())):
        return f"it would work in a folder that is under review ({agent.source('sandbox.workspace')})"
    if agent.tools.elevated.allow_from == ():
        return f"nobody is in {agent.source('tools.elevated.allowFrom')}"
    return None


def _undone(agent: AgentSettings) -> Iterator[Finding]:
    left = set(policy.effective(agent, sandboxed=True))
    denied = {name: policy.decide(name, agent, sandboxed=True) for name in policy.listed(agent) if name not in left}
    for name, other, how in _UNDONE:
        verdict = denied.get(name)
        if verdict and verdict.because == policy.DENIED and other in left:
            yield warn(verdict.source, f"denies {name}, but {other} is allowed: {how}", f"deny {other} too")
    if "exec" in left and agent.sandbox.network.name.lower() != "none":
        for name in _FETCHING:
            verdict = denied.get(name)
            if verdict and verdict.because == policy.DENIED:
                message = f"denies {name}, but exec is allowed and the sandbox has a network"
                yield warn(verdict.source, message, 'deny exec, or set network: "none"')


def _globs(agent: AgentSettings) -> Iterator[Finding]:
    lists = (("tools.allow", agent.tools.allow), ("tools.deny", agent.tools.deny))
    for path, rules in lists:
        for index, rule in enumerate(rules or ()):
            if "*" in rule and "__" not in rule and not policy.covered(rule, agent):
                source = agent.source(f"{path}[{index}]")
                yield warn(source, f'"{rule}" matches no tool that is known', "correct it or take it out")


def _network(agent: AgentSettings) -> Iterator[Finding]:
    source = agent.source("sandbox.network")
    name = agent.sandbox.network.name.lower()
    if name == "host":
        message = "the sandbox has the host's network: every service on the loopback and the LAN"
        yield warn(source, message, 'use "internet", or { allow: ["host:port"] }')
    elif name == "bridge":
        message = "a bridge reaches the LAN and the host on most machines"
        yield warn(source, message, 'use "internet" for public addresses only')
    elif name != "allow" and (suspicion := network.suspicion_about_name(agent.sandbox.network.name)):
        yield warn(source, suspicion, "correct it if that is not what you mean")
    for index, place in enumerate(agent.sandbox.network.raw):
        message = f"traffic to {place} passes unchecked, whichever host behind that address it is for"
        yield warn(
            agent.source(f"sandbox.network.raw[{index}]"), message, "list it in allow if it speaks HTTP, TLS or ssh"
        )
    if agent.sandbox.docker.seccomp != "default":
        message = "a custom seccomp profile replaces Crabpot's own"
        yield warn(agent.source("sandbox.docker.seccomp"), message, 'use "default" unless you must')


def _kubernetes(agent: AgentSettings) -> Iterator[Finding]:
    sandbox = agent.sandbox
    if sandbox.backend != "kubernetes":
        if sandbox.kubernetes != Kubernetes():
            message = f'the settings below kubernetes change nothing: the backend is "{sandbox.backend}"'
            yield warn(_kubernetes_source(agent), message, 'write backend: "kubernetes", or take them out')
        return
    for path, message, fix in _not_on_a_cluster(agent):
        yield Finding(severity="error", path=agent.source(path), message=message, fix=fix)


def _kubernetes_source(agent: AgentSettings) -> str:
    return next((source for path, source in agent.sources.items() if path.startswith("sandbox.kubernetes.")), "default")


def _not_on_a_cluster(agent: AgentSettings) -> Iterator[tuple[str, str, str]]:
    """Yield what the kubernetes backend refuses when a sandbox opens, as (merged path, message, fix)."""
    sandbox, name = agent.sandbox, agent.sandbox.network.name.lower()
    if sandbox.workspace not in ("none", "review"):
        message = "a pod does not see this machine's folders, so no sandbox opens"
        yield "sandbox.workspace", message, 'use "review", or "none" (kubernetes.storage keeps it) and crabpot cp'
    for index in range(len(sandbox.binds)):
        yield f"sandbox.binds[{index}]", "a pod does not see this machine's folders, so no sandbox opens", "take it out"
    for index in range(len(sandbox.programs)):
        message = "a pod does not see this machine's programs, so no sandbox opens"
        yield f"sandbox.programs[{index}]", message, "put them into the image"
    if name not in ("none", "internet", "allow"):
        message = "a pod has no network of its own choosing, so no sandbox opens"
        yield "sandbox.network", message, 'use "none", "internet" or { allow: ["host:port"] }'
    elif name != "none" and sandbox.kubernetes.inet == "refuse":
        message = f'inet: "refuse" leaves no socket by which network "{name}" could be used, so no sandbox opens'
        yield "sandbox.kubernetes.inet", message, 'use inet: "policy", or network: "none"'
