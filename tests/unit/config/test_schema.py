"""Wrong keys, types and values: each error names the file, the line, the path, and what would be right."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

import pytest

from crabpot.config.schema import File
from crabpot.settings import AgentSettings, Settings, camel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crabpot.spec.binds import Surroundings


def sandbox(body: str) -> str:
    return f"{{agents: {{defaults: {{sandbox: {{{body}}}}}}}}}"


UNKNOWN = [
    ("{toolz: {}}", "toolz", "tools"),
    ("{agent: {}}", "agent", "agents"),
    ("{runer: {}}", "runer", "runner"),
    ("{tools: {Deny: []}}", "tools.Deny", "deny"),
    ("{tools: {denny: []}}", "tools.denny", "deny"),
    ("{tools: {elevated: {enable: true}}}", "tools.elevated.enable", "enabled"),
    ("{tools: {elevated: {require_approval: true}}}", "tools.elevated.require_approval", "requireApproval"),
    ("{tools: {elevated: {pattern: []}}}", "tools.elevated.pattern", "patterns"),
    ("{agents: {default: {}}}", "agents.default", "defaults"),
    ("{agents: {defaults: {sandbx: {}}}}", "agents.defaults.sandbx", "sandbox"),
    (sandbox("moed: 'all'"), "agents.defaults.sandbox.moed", "mode"),
    (sandbox("limit: {}"), "agents.defaults.sandbox.limit", "limits"),
    (sandbox("limits: {timelimit: 5}"), "agents.defaults.sandbox.limits.timelimit", "timeLimit"),
    (sandbox("host_commands: []"), "agents.defaults.sandbox.host_commands", "hostCommands"),
    (sandbox("docker: {imgae: 'x'}"), "agents.defaults.sandbox.docker.imgae", "image"),
    (sandbox("kubernetes: {contxt: 'x'}"), "agents.defaults.sandbox.kubernetes.contxt", "context"),
    (
        sandbox("kubernetes: {storage: {clas: 'x', size: 1}}"),
        "agents.defaults.sandbox.kubernetes.storage.clas",
        "class",
    ),
    ("{agents: {entries: {ops: {tool: {}}}}}", "agents.entries.ops.tool", "tools"),
    ("{agents: {list: [{id: 'a', workspase: '/x'}]}}", "agents.list[0].workspase", "workspace"),
]


@pytest.mark.parametrize(("text", "path", "meant"), UNKNOWN)
def test_a_misspelt_key_is_refused_with_what_was_meant(
    text: str, path: str, meant: str, refused: Callable[[str], str], around: Surroundings
) -> None:
    assert refused(text) == f'{around.config}:1: {path}: unknown key; did you mean "{meant}"?'


def test_a_key_that_resembles_none_is_refused_with_those_that_there_are(
    refused: Callable[[str], str], around: Surroundings
) -> None:
    assert refused("{runner: {zzz: 1}}") == f"{around.config}:1: runner.zzz: unknown key; use one of commands"
    assert refused(sandbox("network: {allow: ['a.b'], zzz: 1}")).endswith("unknown key; use one of raw, ask, inject")


@pytest.mark.parametrize(
    "key",
    ["privileged", "capAdd", "cap_add", "noNewPrivileges", "securityOpt", "pid", "ipc", "devices", "user", "args"],
)
def test_no_key_opens_what_no_configuration_opens(key: str, refused: Callable[[str], str]) -> None:
    assert "unknown key" in refused(sandbox(f"{key}: true")) or key == "user"
    assert "unknown key" in refused(sandbox(f"docker: {{{key}: true}}")) or key == "user"
    assert "unknown key" in refused(f"{{sandbox: {{{key}: true}}}}")


WRONG_TYPES = [
    ("{tools: []}", "tools", "must be an object, not a list"),
    ("{tools: {deny: 'exec'}}", "tools.deny", "must be a list, not a string"),
    ("{tools: {deny: {}}}", "tools.deny", "must be a list, not an object"),
    ("{tools: {deny: [5]}}", "tools.deny[0]", "must be a string, not a number"),
    ("{tools: {deny: ['exec', null]}}", "tools.deny[1]", "must be a string, not null"),
    ("{tools: {deny: [['exec']]}}", "tools.deny[0]", "must be a string, not a list"),
    ("{tools: {profile: ['full']}}", "tools.profile", "must be a string, not a list"),
    ("{tools: {elevated: {enabled: 'true'}}}", "tools.elevated.enabled", "must be true or false, not a string"),
    ("{tools: {elevated: {enabled: 1}}}", "tools.elevated.enabled", "must be true or false, not a number"),
    (
        "{tools: {elevated: {approvalTimeout: '5m'}}}",
        "tools.elevated.approvalTimeout",
        "must be a number, not a string",
    ),
    ("{agents: {defaults: {workspace: 5}}}", "agents.defaults.workspace", "must be a string, not a number"),
    (sandbox("mode: true"), "agents.defaults.sandbox.mode", "true or false is not one of off, non-main, all"),
    (sandbox("mode: 'of'"), "agents.defaults.sandbox.mode", 'did you mean "off"?'),
    (sandbox("mode: 'ALL'"), "agents.defaults.sandbox.mode", 'did you mean "all"?'),
    (sandbox("mode: 'non_main'"), "agents.defaults.sandbox.mode", 'did you mean "non-main"?'),
    (sandbox("scope: 'sesion'"), "agents.defaults.sandbox.scope", 'did you mean "session"?'),
    (sandbox("workspace: 'rx'"), "agents.defaults.sandbox.workspace", '"rx" is not one of none, ro, rw'),
    (sandbox("backend: 'bwrap'"), "agents.defaults.sandbox.backend", 'did you mean "bubblewrap"?'),
    (sandbox("user: 1000"), "agents.defaults.sandbox.user", "must be a string, not a number"),
    (sandbox("env: []"), "agents.defaults.sandbox.env", "must be an object, not a list"),
    (sandbox("env: {A: 5}"), "agents.defaults.sandbox.env.A", "must be a string, not a number"),
    (sandbox("warm: 1.5"), "agents.defaults.sandbox.warm", "must be a whole number, not a fraction"),
    (sandbox("warm: true"), "agents.defaults.sandbox.warm", "must be a whole number, not true or false"),
    (sandbox("limits: {pids: '100'}"), "agents.defaults.sandbox.limits.pids", "must be a whole number, not a string"),
    (sandbox("limits: {cpus: true}"), "agents.defaults.sandbox.limits.cpus", "must be a number, not true or false"),
    (sandbox("limits: {memory: '2x'}"), "agents.defaults.sandbox.limits.memory", "must be a size such as"),
    (sandbox("limits: {memory: true}"), "agents.defaults.sandbox.limits.memory", "must be a size such as"),
    (sandbox("limits: {memory: 1.5}"), "agents.defaults.sandbox.limits.memory", "must be a size such as"),
    (sandbox("limits: {memory: []}"), "agents.defaults.sandbox.limits.memory", "must be a size such as"),
    (sandbox("limits: {memory: -1}"), "agents.defaults.sandbox.limits.memory", "must be a size such as"),
    (sandbox("limits: {memory: 0}"), "agents.defaults.sandbox.limits.memory", "above zero"),
    (sandbox("network: {inject: [{}]}"), "agents.defaults.sandbox.network.inject[0]", 'the key "host" is missing'),
    (sandbox("network: {ask: 'yes'}"), "agents.defaults.sandbox.network.ask", "must be true or false"),
    (sandbox("socket: '/x\\0y'"), "agents.defaults.sandbox.socket", "NUL"),
    ("{agents: {defaults: {workspace: '/x\\0y'}}}", "agents.defaults.workspace", "NUL"),
    ("{tools: {deny: ['exec\\0']}}", "tools.deny[0]", "NUL"),
    ("{runner: {commands: 'git'}}", "runner.commands", "must be a list, not a string"),
    ("{gateway: {maxSandboxes: 0}}", "gateway.maxSandboxes", "must be at least 1: no sandboxed call could run"),
    (
        "{gateway: {maxSandboxesPerAgent: -1}}",
        "gateway.maxSandboxesPerAgent",
        "must be at least 1: no sandboxed call could run",
    ),
    ("{audit: {rotate: 99}}", "audit.rotate", "must be at least 100 records"),
    ("{audit: {keepDays: 0}}", "audit.keepDays", "must be above zero; leave it out to keep every record"),
    ("{runner: []}", "runner", "must be an object, not a list"),
]


@pytest.mark.parametrize(("text", "path", "said"), WRONG_TYPES)
def test_a_wrong_type_or_value_is_refused_with_what_would_be_right(
    text: str, path: str, said: str, refused: Callable[[str], str], around: Surroundings
) -> None:
    message = refused(text)
    assert f"{around.config}:1: {path}: " in message
    assert said in message


def test_an_error_names_the_line_that_the_value_stands_on(refused: Callable[[str], str], around: Surroundings) -> None:
    text = (
        "{\n  // one\n  tools: {\n    profile: 'coding',\r\n    deny: [\n      'exec',\n      'exce',\n    ],\n  },\n}"
    )
    assert refused(text) == f'{around.config}:7: tools.deny[1]: unknown tool "exce"; did you mean "exec"?'


def test_every_problem_is_told_at_once(refused: Callable[[str], str]) -> None:
    lines = refused("{\ntoolz: 1,\ntools: {deny: 5,\nprofile: 6}}").split("\n")
    assert [line.split(": ")[1] for line in lines] == ["toolz", "tools.deny", "tools.profile"]


def test_a_flood_of_problems_is_cut_short(refused: Callable[[str], str]) -> None:
    assert len(refused("{" + ",".join(f"k{n}: 1" for n in range(40_000)) + "}").split("\n")) == 20


def _paths(shape: Any, path: str = "") -> Iterator[str]:
    for name, kind in get_type_hints(shape).items():
        below = f"{path}.{camel(name)}".lstrip(".")
        inner = next((part for part in getattr(kind, "__args__", ()) if is_dataclass(part)), kind)
        if is_dataclass(inner):
            yield from _paths(inner, below)
        else:
            yield below


def test_the_schema_holds_every_key_of_the_documented_configuration() -> None:
    documented = """
        agents.defaults.workspace
        tools.profile tools.allow tools.deny tools.extra tools.sandbox.allow tools.sandbox.deny
        tools.elevated.enabled tools.elevated.patterns tools.elevated.requireApproval tools.elevated.approvalTimeout
        tools.elevated.allowFrom tools.elevated.path tools.elevated.passEnv runner.commands
    """.split()
    for key in """
        mode scope workspace backend binds user env socket hostCommands hostUser sshKey warm
        limits.memory limits.cpus limits.pids limits.timeLimit limits.timeCeiling limits.output limits.tmp
        limits.openFiles limits.fileSize limits.disk limits.memoryReservation limits.cpuShares
        limits.io.read limits.io.write docker.image docker.runtime docker.seccomp docker.apparmor docker.setup
        kubernetes.context kubernetes.namespace kubernetes.image kubernetes.runtimeClass kubernetes.storage.size
        kubernetes.storage.class kubernetes.nodeSelector kubernetes.tolerations.key kubernetes.imagePullSecret
        kubernetes.hostUsers kubernetes.inet prune.idleHours prune.maxAgeDays
    """.split():
        documented.append(f"agents.defaults.sandbox.{key}")
    assert set(documented) <= set(_paths(File))


def test_an_empty_file_gives_the_defaults_of_the_settings(load_text: Callable[[str], Settings]) -> None:
    loaded, default = load_text("{}"), AgentSettings(id="main")
    assert all(getattr(loaded.defaults, one.name) == getattr(default, one.name) for one in fields(AgentSettings))
    assert loaded.runner == Settings().runner
