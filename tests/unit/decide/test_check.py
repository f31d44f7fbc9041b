"""What a configuration gives away: each finding fires where it should, does not where it should not, and has its fix."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crabpot.decide import check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from crabpot.decide.check import Finding
    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.binds import Surroundings


def sandbox(body: str, tools: str = "{}") -> str:
    return f"{{agents: {{defaults: {{sandbox: {{{body}}}}}}}, tools: {tools}}}"


def elevated(patterns: str, more: str = "", sandbox_body: str = "") -> str:
    return sandbox(sandbox_body, f"{{elevated: {{enabled: true, patterns: {patterns}{more}}}}}")


PATTERNS, BINDS, NETWORK = (
    "tools.elevated.patterns[0]",
    "agents.defaults.sandbox.binds[0]",
    "agents.defaults.sandbox.network",
)

FIRES = [
    (sandbox("mode: 'off'"), "agents.defaults.sandbox.mode", "every call runs on the host", 'use "non-main" or "all"'),
    ("{sandbox: {enabled: false}}", "sandbox.enabled", "every call runs on the host", 'use "non-main" or "all"'),
    (
        sandbox("backend: 'socket', socket: '/run/x/s'"),
        "agents.defaults.sandbox.backend",
        "confined by whoever started it",
        "runner-compose",
    ),
    (sandbox("backend: 'socket', socket: '/tmp/s'"), "agents.defaults.sandbox.backend", "runner of their own", "0750"),
    (sandbox("workspace: 'review', warm: 2"), "agents.defaults.sandbox.warm", "keeps no sandbox ready", "take it out"),
    (elevated("['make all']", sandbox_body="workspace: 'review'"), PATTERNS, "that is under review", "take it out"),
    (sandbox("workspaceAt: 'same'"), "agents.defaults.sandbox.workspaceAt", "has no effect", 'workspace: "rw"'),
    ("{tools: {elevated: {patterns: ['ls']}}}", PATTERNS, "unreachable: elevated is not enabled", "take it out"),
    (elevated("['ls']", sandbox_body="mode: 'off'"), PATTERNS, "unreachable: no session is sandboxed", "take it out"),
    (
        elevated("['ls']", ", allowFrom: []"),
        PATTERNS,
        "unreachable: nobody is in tools.elevated.allowFrom",
        "take it out",
    ),
    (
        "{tools: {deny: ['group:runtime'], elevated: {enabled: true, patterns: ['ls']}}}",
        PATTERNS,
        'exec is not allowed (tools.deny[0] "group:runtime")',
        "take it out",
    ),
    (
        "{tools: {profile: 'messaging', elevated: {enabled: true, patterns: ['ls']}}}",
        PATTERNS,
        "exec is not allowed",
        "take it out",
    ),
    (
        "{tools: {sandbox: {deny: ['bash']}, elevated: {enabled: true, patterns: ['ls']}}}",
        PATTERNS,
        "exec is not allowed",
        "take it out",
    ),
    (
        "{tools: {deny: ['exec']}, sandbox: {host_commands: ['git']}}",
        "sandbox.host_commands[0]",
        "unreachable",
        "take it out",
    ),
    (elevated("['/usr/bin/git *']"), PATTERNS, "matches nothing: the first word is a name", "correct it"),
    (elevated("['*']"), PATTERNS, "matches nothing", "correct it"),
    (elevated("['']"), PATTERNS, "matches nothing: the pattern is empty", "correct it"),
    *[
        (elevated(f"['{pattern}']"), PATTERNS, "in a guard on the host", "name the exact arguments")
        for pattern in (
            "sh *",
            "python *",
            "python3.11 *",
            "env *",
            "sudo *",
            "make",
            "npm test",
            "bash x.sh",
            "brew *",
            "terraform *",
            "ansible-playbook *",
            "curl *",
            "psql *",
        )
    ],
    (elevated("['docker *']"), PATTERNS, "gives the host away", "unless that is what you mean"),
    (elevated("[{pattern: 'ls', credentials: ['docker']}]"), PATTERNS, "gives the host away", "unless that"),
    (elevated("[{pattern: 'ls', confine: 'host'}]"), PATTERNS, "runs unconfined", "take confine out"),
    (elevated("['ls']", ", confine: 'host'"), PATTERNS, "runs unconfined", "take confine out"),
    (elevated("[{pattern: 'sh *', confine: 'host'}]"), PATTERNS, "gives the host away", "name the exact arguments"),
    (
        sandbox("hostCommands: ['docker']"),
        "agents.defaults.sandbox.hostCommands[0]",
        "gives the host away",
        "unless that is what you mean",
    ),
    (
        elevated("['ls']", ", requireApproval: false"),
        "tools.elevated.requireApproval",
        "without approval",
        "set requireApproval: true",
    ),
    ("{tools: {deny: ['write']}}", 'tools.deny[0] "write"', "denies write, but exec is allowed", "deny exec too"),
    (
        "{tools: {deny: ['edit'], profile: 'coding'}}",
        'tools.deny[0] "edit"',
        "denies edit, but write is allowed",
        "deny write too",
    ),
    ("{tools: {deny: ['edit']}}", 'tools.deny[0] "edit"', "denies edit, but exec is allowed", "deny exec too"),
    (
        "{tools: {deny: ['apply_patch']}}",
        'tools.deny[0] "apply_patch"',
        "denies apply_patch, but write is allowed",
        "deny write too",
    ),
    ("{tools: {deny: ['read']}}", 'tools.deny[0] "read"', "denies read, but exec is allowed", "deny exec too"),
    ("{tools: {deny: ['read', 'exec']}}", 'tools.deny[0] "read"', "denies read, but grep is allowed", "deny grep too"),
    (
        "{tools: {sandbox: {deny: ['write']}}}",
        'tools.sandbox.deny[0] "write"',
        "denies write, but exec",
        "deny exec too",
    ),
    (
        sandbox("network: 'internet'", "{deny: ['web_fetch']}"),
        'tools.deny[0] "web_fetch"',
        "the sandbox has a network",
        "deny exec",
    ),
    (
        sandbox("network: {allow: ['a.b']}", "{deny: ['browser']}"),
        'tools.deny[0] "browser"',
        "the sandbox has a network",
        "deny exec",
    ),
    ("{tools: {deny: ['nothing_*']}}", "tools.deny[0]", "matches no tool", "correct it"),
    ("{tools: {allow: ['exec', 'Reed*']}}", "tools.allow[1]", "matches no tool", "correct it"),
    (sandbox("network: 'host'"), NETWORK, "has the host's network", 'use "internet"'),
    (sandbox("network: 'HOST'"), NETWORK, "has the host's network", 'use "internet"'),
    (sandbox("network: 'bridge'"), NETWORK, "reaches the LAN", 'use "internet"'),
    (sandbox("network: {raw: ['db.example:5432']}"), f"{NETWORK}.raw[0]", "passes unchecked", "list it in allow"),
    (sandbox("network: 'intrnet'"), NETWORK, 'did you mean "internet"?', "correct it"),
    (
        sandbox("docker: {seccomp: '/srv/p.json'}"),
        "agents.defaults.sandbox.docker.seccomp",
        "custom seccomp profile",
        'use "default"',
    ),
    (
        sandbox("kubernetes: {namespace: 'pots'}"),
        "agents.defaults.sandbox.kubernetes.namespace",
        'change nothing: the backend is "auto"',
        'backend: "kubernetes"',
    ),
    (
        sandbox("backend: 'kubernetes', workspace: 'rw'"),
        "agents.defaults.sandbox.workspace",
        "does not see this machine's folders",
        '"none"',
    ),
    (
        sandbox("backend: 'kubernetes', binds: ['/srv/a:/a']"),
        BINDS,
        "does not see this machine's folders",
        "take it out",
    ),
    (sandbox("backend: 'kubernetes', network: 'host'"), NETWORK, "no network of its own choosing", '"internet"'),
    (
        sandbox("backend: 'kubernetes', network: 'internet', kubernetes: {inet: 'refuse'}"),
        "agents.defaults.sandbox.kubernetes.inet",
        "leaves no socket",
        'inet: "policy"',
    ),
    (sandbox("binds: ['/srv/none/such:/x']"), BINDS, "does not exist", "mkdir -p"),
    (sandbox("binds: ['/srv:/x']"), BINDS, "whole top-level folder", "only the folder"),
    (sandbox("binds: ['/srv/none/such:/x:rw']"), BINDS, "the agent may change /srv/none/such", "use ro"),
]


@pytest.mark.parametrize("row", FIRES)
def test_it_fires_with_its_path_and_its_fix(
    row: tuple[str, str, str, str], agent_of: Callable[..., AgentSettings], around: Surroundings
) -> None:
    text, path, message, fix = row
    found = check.findings(agent_of(text), around)
    assert [one for one in found if one.path == path and message in one.message and fix in one.fix], found


CLEAN = [
    "{}",
    elevated("['git push *', 'systemctl status *', 'ls']"),
    elevated("['ls']", ", allowFrom: ['me']"),
    elevated("['ls']", ", requireApproval: true"),
    "{tools: {elevated: {enabled: true, requireApproval: false}}}",
    "{tools: {elevated: {requireApproval: false}}}",
    "{tools: {deny: ['group:fs', 'group:runtime']}}",
    "{tools: {deny: ['exec']}}",
    "{tools: {deny: ['write', 'edit', 'exec']}}",
    "{tools: {profile: 'messaging'}}",
    "{tools: {profile: 'coding', deny: ['group:automation', 'web_fetch']}}",
    "{tools: {deny: ['github__*', 'sessions_*', '*']}}",
    sandbox("network: 'none'", "{deny: ['web_fetch', 'browser']}"),
    sandbox("network: 'None'", "{deny: ['web_fetch', 'browser']}"),
    sandbox("network: 'internet'"),
    sandbox("network: {allow: ['a.b:443']}"),
    sandbox("network: 'internet'", "{deny: ['web_fetch', 'exec']}"),
    sandbox("network: 'my-net'"),
    sandbox("binds: ['/usr/share:/x:ro']"),
    sandbox("hostCommands: ['git']"),
    sandbox("backend: 'kubernetes', kubernetes: {namespace: 'pots', inet: 'refuse'}"),
    sandbox("backend: 'kubernetes', network: 'internet'"),
]


@pytest.mark.parametrize("text", CLEAN)
def test_it_does_not_fire_without_cause(
    text: str, agent_of: Callable[..., AgentSettings], around: Surroundings
) -> None:
    assert check.findings(agent_of(text), around) == []


def test_a_pattern_that_matches_nothing_is_an_error_and_the_rest_are_warnings(
    agent_of: Callable[..., AgentSettings], around: Surroundings
) -> None:
    found = check.findings(agent_of(elevated("['a/b', 'sh *']")), around)
    assert [one.severity for one in found] == ["error", "warning"]


def test_a_bind_that_is_a_link_says_where_it_leads(
    agent_of: Callable[..., AgentSettings], around: Surroundings, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (one,) = check.findings(agent_of(sandbox(f"binds: ['{tmp_path}/link:/x']")), around)
    assert one.message == f"{tmp_path}/link is a link to {tmp_path}/real"
    assert check.findings(agent_of(sandbox(f"binds: ['{tmp_path}/real:/x']")), around) == []


@pytest.mark.parametrize(
    "name", [".git/hooks", ".git/config", ".envrc", ".vscode", "Makefile", "package.json", ".mcp.json"]
)
def test_a_writable_folder_that_holds_what_the_host_executes_is_told(
    name: str, agent_of: Callable[..., AgentSettings], around: Surroundings, tmp_path: Path
) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("")

    def found(access: str, mode: str = "all") -> list[Finding]:
        body = f"{{workspace: '{tmp_path}', sandbox: {{workspace: '{access}', mode: '{mode}'}}}}"
        return check.findings(agent_of(f"{{agents: {{defaults: {body}}}}}"), around)

    (one,) = found("rw")
    assert (one.path, name in one.message) == ("agents.defaults.sandbox.workspace", True)
    assert 'workspace: "review" or "ro"' in one.fix
    assert found("ro") == found("none") == []
    assert not any(name in finding.message for finding in found("rw", "off"))
    (bound,) = check.findings(agent_of(sandbox(f"binds: ['{tmp_path}:/x:rw']")), around)
    assert name in bound.message


def test_an_empty_writable_workspace_is_not_told(
    agent_of: Callable[..., AgentSettings], around: Surroundings, tmp_path: Path
) -> None:
    text = f"{{agents: {{defaults: {{workspace: '{tmp_path}', sandbox: {{workspace: 'rw'}}}}}}}}"
    assert check.findings(agent_of(text), around) == []


@pytest.mark.parametrize("access", ["ro", "rw"])
def test_a_workspace_that_does_not_exist_is_told_where_a_sandbox_would_show_it(
    access: str, agent_of: Callable[..., AgentSettings], around: Surroundings, tmp_path: Path
) -> None:
    def found(sandbox_body: str) -> list[Finding]:
        body = f"{{workspace: '{tmp_path}/no such', sandbox: {{{sandbox_body}}}}}"
        return check.findings(agent_of(f"{{agents: {{defaults: {body}}}}}"), around)

    (one,) = found(f"workspace: '{access}'")
    assert (one.severity, one.path) == ("warning", "agents.defaults.workspace")
    assert one.message == f"{tmp_path}/no such does not exist; the sandbox will not open"
    assert one.fix == f"run `mkdir -p '{tmp_path}/no such'`"
    assert found("workspace: 'none'") == []
    # On the host the runner makes it.
    assert [one.path for one in found(f"workspace: '{access}', mode: 'off'")] == ["agents.defaults.sandbox.mode"]
    (tmp_path / "no such").mkdir()
    assert found(f"workspace: '{access}'") == []


def test_a_file_that_others_may_write_is_told(
    load_text: Callable[[str], Settings], around: Surroundings, tmp_path: Path
) -> None:
    file = tmp_path / "c.json5"
    file.write_text("{}")
    settings = replace(load_text("{}"), file=str(file))
    for mode, fires in ((0o600, False), (0o644, False), (0o664, True), (0o646, True), (0o622, True)):
        file.chmod(mode)
        found = check.check(settings, around)
        assert bool(found) is fires, oct(mode)
        assert all("chmod go-w" in one.fix for one in found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_belongs_to_another_user_is_told(
    load_text: Callable[[str], Settings], around: Surroundings, tmp_path: Path
) -> None:
    file = tmp_path / "c.json5"
    file.write_text("{}")
    os.chown(file, 12345, 12345)
    (one,) = check.check(replace(load_text("{}"), file=str(file)), around)
    assert "belongs to user 12345" in one.message
    assert "chown" in one.fix


def test_what_several_agents_share_is_told_once(load_text: Callable[[str], Settings], around: Surroundings) -> None:
    text = (
        "{agents: {defaults: {sandbox: {network: 'host'}}, entries: {a: {}, b: {sandbox: {network: 'bridge'}}}},"
        " tools: {deny: ['nothing*']}}"
    )
    found = check.check(replace(load_text(text), file=None), around)
    assert [one.path for one in found] == [
        "tools.deny[0]",
        "agents.defaults.sandbox.network",
        "agents.entries.b.sandbox.network",
    ]


def test_a_finding_reads_as_one_sentence(agent_of: Callable[..., AgentSettings], around: Surroundings) -> None:
    (one,) = check.findings(agent_of(sandbox("network: 'host'")), around)
    assert str(one) == f"{one.path}: {one.message}; {one.fix}"


@pytest.mark.parametrize(
    ("commands", "path", "message"),
    [
        ("['git', 'sudo']", "runner.commands[1]", "never run"),
        ("['a b']", "runner.commands[0]", "plain name"),
        ("['sh']", "runner.commands[0]", "can run anything"),
        ("[]", "runner.commands", "the list is empty"),
    ],
)
def test_the_list_of_a_runner_on_a_socket_is_looked_at(
    load_text: Callable[..., Settings], around: Surroundings, commands: str, path: str, message: str
) -> None:
    settings = replace(load_text(f"{{runner: {{commands: {commands}}}}}"), file=None)
    found = check.check(settings, around)
    assert [one for one in found if one.path == path and message in one.message], found
    assert not [one for one in check.check(replace(load_text("{}"), file=None), around) if "runner" in one.path]


def test_a_key_that_others_could_read_is_told(
    agent_of: Callable[..., AgentSettings], around: Surroundings, tmp_path: Path
) -> None:
    key, seen = tmp_path / "key", tmp_path / "seen"
    seen.mkdir()
    text = sandbox(f"hostCommands: ['ls'], hostUser: 'x', sshKey: '{key}', binds: ['{seen}:/x']")
    assert check.findings(agent_of(text), around) == []
    key.write_text("")
    key.chmod(0o644)
    (one,) = check.findings(agent_of(text), around)
    assert "not the gateway's alone" in one.message
    assert one.fix == f"chmod 600 {key}"
    key.chmod(0o600)
    assert check.findings(agent_of(text), around) == []
    key.rename(seen / "key")
    (one,) = check.findings(agent_of(text.replace(str(key), f"{seen}/key")), around)
    assert (f"lies in {seen}" in one.message, one.fix) == (True, "move it")


def test_one_agent_that_may_have_every_sandbox_is_told(
    load_text: Callable[..., Settings], around: Surroundings
) -> None:
    for text, told in (("{}", 0), ("{gateway: {maxSandboxes: 50}}", 1), ("{gateway: {maxSandboxes: 100}}", 0)):
        found = check.check(replace(load_text(text), file=None), around)
        assert [one.path for one in found] == ["gateway.maxSandboxesPerAgent"] * told
        assert all("at most 50 (gateway.maxSandboxes)" in one.message and "lower it" in one.fix for one in found)
