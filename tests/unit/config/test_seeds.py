"""Every configuration of the five documents loads as it is written there, and means what its document says."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crabpot.config.document import SyntaxProblem, plain
from crabpot.config.reading import parse
from crabpot.decide import elevation, placement, policy
from crabpot.decide.elevation import Decision
from crabpot.decide.sessions import parse as session
from crabpot.model import Place
from crabpot.settings import Network, Sandbox, Tools
from crabpot.spec.build import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import AgentSettings, Settings
    from crabpot.spec.binds import Surroundings

SEEDS = Path(__file__).parents[2] / "seeds"
DOCUMENTS = ("clawfactory-runner", "openclaw-sandboxing", "miclaw-sandboxing", "runtime-hardening", "sandbox-image")
GROUP = "agent:main:telegram:group:-100123"

FILES = frozenset("read write edit apply_patch grep glob ls".split())
RUNTIME = frozenset({"exec", "process"})


def fenced(document: str, languages: str) -> list[str]:
    text = (SEEDS / f"{document}.md").read_text(encoding="utf-8")
    return re.findall(rf"^```(?:{languages})\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def configurations(document: str) -> list[str]:
    """Leave out what is JSON but no configuration: frames of a protocol, a seccomp profile, an access list."""
    return [block for block in fenced(document, "json|json5|jsonc") if _is_configuration(block)]


def _is_configuration(block: str) -> bool:
    try:
        value = plain(parse(block))
    except SyntaxProblem:
        return False  # two frames, one after the other
    return isinstance(value, dict) and not {"syscalls", "acls"} & set(value)


ENABLING, BINDS, PROFILE, LISTS, ELEVATED, TRUSTED, MIXED, CAUTIOUS = range(8)


@pytest.mark.parametrize(
    ("document", "blocks", "configs"),
    [(DOCUMENTS[0], 1, 0), (DOCUMENTS[1], 8, 8), (DOCUMENTS[2], 2, 2), (DOCUMENTS[3], 1, 0), (DOCUMENTS[4], 2, 1)],
)
def test_no_configuration_of_the_documents_is_missed(document: str, blocks: int, configs: int) -> None:
    assert len(fenced(document, "json|json5|jsonc")) == blocks
    assert len(configurations(document)) == configs


@pytest.fixture(scope="session")
def openclaw(agent_of: Callable[..., AgentSettings]) -> Callable[[int], AgentSettings]:
    return lambda index: agent_of(configurations("openclaw-sandboxing")[index])


@pytest.fixture(scope="session")
def miclaw(agent_of: Callable[..., AgentSettings]) -> Callable[[int], AgentSettings]:
    return lambda index: agent_of(configurations("miclaw-sandboxing")[index])


def where(agent: AgentSettings, key: str) -> Place:
    return placement.decide(session(key), agent).answer.where


def tools(agent: AgentSettings) -> set[str]:
    return set(policy.effective(agent, sandboxed=True))


def leaves(agent: AgentSettings, command: str) -> Decision:
    return elevation.decide({"command": command}, agent, sender=None).answer.decision


def test_enabling_the_sandbox(openclaw: Callable[[int], AgentSettings], around: Surroundings) -> None:
    agent = openclaw(ENABLING)
    assert agent.sandbox == Sandbox(mode="all", scope="session", workspace="none")
    assert {where(agent, key) for key in ("agent:main:main", GROUP)} == {Place.SANDBOX}
    keys = [placement.decide(session(key), agent).answer.scope_key for key in ("agent:main:main", GROUP)]
    assert keys == ["agent:main:main", GROUP]
    spec = build(agent, GROUP, around)
    assert spec.private
    assert spec.workspace.startswith(f"{around.state}/sandboxes/")
    assert (spec.agent_workspace, spec.mounts, spec.network.kind, spec.limits.time_limit) == (None, (), "none", 60)


def test_custom_bind_mounts(openclaw: Callable[[int], AgentSettings], around: Surroundings) -> None:
    agent = openclaw(BINDS)
    mounts = [(mount.source, mount.target, mount.access) for mount in build(agent, GROUP, around).mounts]
    assert mounts == [("/home/user/projects", "/projects", "ro"), ("/home/user/data", "/data", "rw")]


def test_a_tool_profile(openclaw: Callable[[int], AgentSettings]) -> None:
    assert tools(openclaw(PROFILE)) == {"message", "web_search", "web_fetch"}


def test_allow_and_deny_lists(openclaw: Callable[[int], AgentSettings]) -> None:
    agent = openclaw(LISTS)
    assert tools(agent) == FILES | RUNTIME | {"web_search"}
    assert policy.decide("browser", agent, sandboxed=True).source == 'tools.deny[0] "browser"'
    assert policy.decide("sessions_spawn", agent, sandboxed=True).source == 'tools.deny[1] "group:automation"'
    assert policy.decide("web_search", agent, sandboxed=True).source == 'tools.allow[0] "web_search"'


def test_elevated_patterns(openclaw: Callable[[int], AgentSettings]) -> None:
    agent = openclaw(ELEVATED)
    for command in ("brew install jq", "git push origin main", "docker ps", "git push"):
        assert leaves(agent, command) is Decision.NEEDS_APPROVAL, command
    for command in ("git pull", "rm -rf /", "brewery", "git pushy", "brew install jq; id"):
        assert leaves(agent, command) is Decision.SANDBOXED, command


def test_scenario_one_trusts_its_owner(openclaw: Callable[[int], AgentSettings]) -> None:
    agent = openclaw(TRUSTED)
    assert {where(agent, key) for key in ("agent:main:main", GROUP)} == {Place.HOST}
    assert policy.effective(agent, sandboxed=False) == policy.listed(agent)


def test_scenario_two_trusts_its_owner_and_not_the_group(openclaw: Callable[[int], AgentSettings]) -> None:
    agent = openclaw(MIXED)
    assert (where(agent, "agent:main:main"), where(agent, GROUP)) == (Place.HOST, Place.SANDBOX)
    assert tools(agent) == FILES | RUNTIME | {"browser"}
    for tool in ("cron", "gateway", "sessions_spawn", "sessions_send"):
        assert policy.decide(tool, agent, sandboxed=False).source == 'tools.deny[0] "group:automation"'


def test_scenario_three_is_cautious_and_its_deny_wins_over_its_patterns(
    openclaw: Callable[[int], AgentSettings], around: Surroundings
) -> None:
    agent = openclaw(CAUTIOUS)
    assert {where(agent, key) for key in ("agent:main:main", GROUP)} == {Place.SANDBOX}
    assert tools(agent) == {"message", "web_search", "web_fetch"}
    assert leaves(agent, "journalctl -u sshd") is Decision.NEEDS_APPROVAL
    assert not policy.decide("exec", agent, sandboxed=True).answer
    spec = build(agent, GROUP, around)
    assert spec.private
    assert spec.agent_workspace == f"{around.home}/agent"


def test_miclaw_mounts(miclaw: Callable[[int], AgentSettings], around: Surroundings) -> None:
    agent = miclaw(0)
    assert {where(agent, key) for key in ("agent:main:main", GROUP)} == {Place.SANDBOX}
    assert placement.decide(session(GROUP), agent).answer.scope_key == "shared"
    spec = build(agent, "shared", around)
    assert (spec.workspace, spec.private) == (f"{around.home}/agent", False)
    assert [(m.source, m.target, m.access) for m in spec.mounts] == [("/home/user/ref", "/ref", "ro")]
    assert spec.network.kind == "none"
    assert tools(agent) >= FILES | RUNTIME


def test_miclaw_host_commands(miclaw: Callable[[int], AgentSettings]) -> None:
    agent = miclaw(1)
    sandbox = agent.sandbox
    assert (sandbox.host_user, sandbox.ssh_key) == ("pipo-runner", "~/.ssh/id_ed25519")
    assert sandbox.host_commands == ("git", "docker")
    assert agent.tools == Tools()
    for command in ("git status", "docker ps", "git"):
        assert leaves(agent, command) is Decision.NEEDS_APPROVAL, command
    assert leaves(agent, "ls") is Decision.SANDBOXED


def test_the_image_documents_user_changes_nothing_else(
    agent_of: Callable[..., AgentSettings], around: Surroundings
) -> None:
    agent = agent_of(configurations("sandbox-image")[0])
    assert agent.sandbox == Sandbox(user="1000:1000")
    user = build(agent, GROUP, around).user
    assert user is not None
    assert (user.uid, user.gid) == (1000, 1000)


@pytest.mark.parametrize("value", ["none", "host", "bridge", "my-net"])
def test_miclaws_networks_mean_what_docker_means(value: str, agent_of: Callable[..., AgentSettings]) -> None:
    agent = agent_of(f'{{"sandbox": {{"enabled": true, "network": "{value}"}}}}')
    assert agent.sandbox.network == Network(name=value)


def test_clawfactorys_runner_socket_is_taken_from_the_environment(load_text: Callable[..., Settings]) -> None:
    text = (SEEDS / "clawfactory-runner.md").read_text(encoding="utf-8")
    socket = re.search(r"RUNNER_SOCKET=(\S+?)`", text)
    assert socket
    sandbox = load_text("{}", RUNNER_SOCKET=socket[1]).defaults.sandbox
    assert (sandbox.backend, sandbox.socket) == ("socket", "/run/clawfactory/runner.sock")


def test_clawfactorys_commands_are_the_runners_default(load_text: Callable[[str], Settings]) -> None:
    allowed = ast.literal_eval(fenced("clawfactory-runner", "python")[0].partition("=")[2].strip())
    assert load_text("{}").runner.commands == tuple(allowed)


@pytest.mark.parametrize("source", ["/var/run/docker.sock", "/etc", "/proc", "/sys", "/dev"])
def test_the_bind_sources_that_the_document_blocks_are_blocked(source: str, refused: Callable[[str], str]) -> None:
    assert f"`{source}`" in (SEEDS / "openclaw-sandboxing.md").read_text(encoding="utf-8")
    text = configurations("openclaw-sandboxing")[BINDS].replace("/home/user/data:/data:rw", f"{source}:/data:ro")
    assert "agents.defaults.sandbox.binds[1]" in refused(text)
