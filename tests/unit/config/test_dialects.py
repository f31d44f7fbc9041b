"""Other spellings load as they are, mean the same, and are refused where two of them disagree."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from crabpot.settings import Network, Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import AgentSettings, Settings


def below_defaults(sandbox: str) -> str:
    return f"{{agents: {{defaults: {{sandbox: {sandbox}}}}}}}"


SAME = [
    (below_defaults("{workspaceAccess: 'ro'}"), below_defaults("{workspace: 'ro'}")),
    (below_defaults("{docker: {binds: ['/srv/a:/a']}}"), below_defaults("{binds: ['/srv/a:/a']}")),
    (below_defaults("{docker: {user: '7:8'}}"), below_defaults("{user: '7:8'}")),
    (below_defaults("{docker: {network: 'bridge'}}"), below_defaults("{network: 'bridge'}")),
    ("{sandbox: {docker: {user: '7:8'}}}", below_defaults("{user: '7:8'}")),
    ("{sandbox: {enabled: true}}", below_defaults("{mode: 'all', scope: 'shared', workspace: 'rw'}")),
    ("{sandbox: {enabled: false}}", below_defaults("{mode: 'off'}")),
    ("{sandbox: {network: 'host'}}", below_defaults("{network: 'host'}")),
    ("{sandbox: {network: {allow: ['a.b']}}}", below_defaults("{network: {allow: ['a.b']}}")),
    (
        "{sandbox: {mounts: [{host: '/srv/a', container: '/a', mode: 'rw'}, {host: '/srv/b', container: '/b'}]}}",
        below_defaults("{binds: ['/srv/a:/a:rw', '/srv/b:/b:ro']}"),
    ),
    (
        "{sandbox: {host_commands: ['git'], host_user: 'bob', ssh_key_path: '~/.ssh/k'}}",
        below_defaults("{hostCommands: ['git'], hostUser: 'bob', sshKey: '~/.ssh/k'}"),
    ),
    ("{workspace: '/srv/w'}", "{agents: {defaults: {workspace: '/srv/w'}}}"),
    (
        "{agents: {list: [{id: 'ops', sandbox: {mode: 'off'}}]}}",
        "{agents: {entries: {ops: {sandbox: {mode: 'off'}}}}}",
    ),
    (
        "{agents: {list: [{id: 'ops', sandbox: {docker: {user: '5:5'}}}]}}",
        "{agents: {entries: {ops: {sandbox: {user: '5:5'}}}}}",
    ),
]


@pytest.mark.parametrize(("other", "own"), SAME)
def test_another_spelling_means_the_same(other: str, own: str, load_text: Callable[[str], Settings]) -> None:
    one, two = load_text(other), load_text(own)
    for agent in ("main", "ops"):
        left, right = one.agent(agent), two.agent(agent)
        assert (left.workspace, left.sandbox, left.tools) == (right.workspace, right.sandbox, right.tools)


def test_a_top_level_docker_user_changes_nothing_else(agent_of: Callable[..., AgentSettings]) -> None:
    assert agent_of('{"sandbox": {"docker": {"user": "1000:1000"}}}').sandbox == Sandbox(user="1000:1000")


def test_enabled_false_changes_the_mode_and_nothing_else(agent_of: Callable[..., AgentSettings]) -> None:
    assert agent_of("{sandbox: {enabled: false}}").sandbox == Sandbox(mode="off")


def test_a_docker_setting_of_its_own_stays_beside_what_is_moved(agent_of: Callable[..., AgentSettings]) -> None:
    sandbox = agent_of(below_defaults("{docker: {image: 'x:1', user: '5:6', network: 'bridge'}}")).sandbox
    assert (sandbox.docker.image, sandbox.user, sandbox.network) == ("x:1", "5:6", Network(name="bridge"))


def test_a_moved_value_is_still_named_where_it_was_written(agent_of: Callable[..., AgentSettings]) -> None:
    agent = agent_of("{sandbox: {enabled: true, host_commands: ['git'], mounts: [{host: '/srv', container: '/x'}]}}")
    assert agent.source("sandbox.mode") == "sandbox.enabled"
    assert agent.source("sandbox.hostCommands[0]") == "sandbox.host_commands[0]"
    assert agent.source("sandbox.binds[0]") == "sandbox.mounts[0]"


DISAGREEMENTS = [
    (
        below_defaults("{workspace: 'none', workspaceAccess: 'ro'}"),
        "workspaceAccess",
        "agents.defaults.sandbox.workspace",
    ),
    (below_defaults("{binds: ['/srv/a:/a'], docker: {binds: ['/srv/b:/b']}}"), "docker.binds", "sandbox.binds"),
    (
        below_defaults("{binds: ['/srv/a:/a', '/srv/b:/b'], docker: {binds: ['/srv/b:/b', '/srv/a:/a']}}"),
        "binds",
        "binds",
    ),
    (below_defaults("{user: '1:1', docker: {user: '1:2'}}"), "docker.user", "sandbox.user"),
    (below_defaults("{network: 'none', docker: {network: 'host'}}"), "docker.network", "sandbox.network"),
    (below_defaults("{network: 'none', docker: {network: {allow: []}}}"), "docker.network", "sandbox.network"),
    ("{sandbox: {enabled: true}, agents: {defaults: {sandbox: {mode: 'off'}}}}", "sandbox.mode", "sandbox.enabled"),
    ("{sandbox: {enabled: true}, agents: {defaults: {sandbox: {mode: 'non-main'}}}}", "mode", "sandbox.enabled"),
    ("{sandbox: {enabled: true}, agents: {defaults: {sandbox: {scope: 'session'}}}}", "scope", "sandbox.enabled"),
    ("{sandbox: {enabled: true}, agents: {defaults: {sandbox: {workspace: 'none'}}}}", "workspace", "enabled"),
    (
        "{sandbox: {enabled: true}, agents: {defaults: {sandbox: {workspaceAccess: 'ro'}}}}",
        "workspaceAccess",
        "enabled",
    ),
    ("{sandbox: {enabled: false}, agents: {defaults: {sandbox: {mode: 'all'}}}}", "sandbox.mode", "sandbox.enabled"),
    ("{sandbox: {network: 'none'}, agents: {defaults: {sandbox: {network: 'host'}}}}", "network", "sandbox.network"),
    ("{sandbox: {docker: {user: '1:1'}}, agents: {defaults: {sandbox: {user: '2:2'}}}}", "user", "sandbox.docker.user"),
    (
        "{sandbox: {mounts: [{host: '/srv/a', container: '/a'}]}, agents: {defaults: {sandbox: {binds: []}}}}",
        "binds",
        "sandbox.mounts",
    ),
    (
        "{sandbox: {host_commands: ['git']}, agents: {defaults: {sandbox: {hostCommands: ['git', 'hg']}}}}",
        "hostCommands",
        "sandbox.host_commands",
    ),
    ("{sandbox: {host_user: 'a'}, agents: {defaults: {sandbox: {hostUser: 'b'}}}}", "hostUser", "sandbox.host_user"),
    (
        "{sandbox: {ssh_key_path: '/a'}, agents: {defaults: {sandbox: {sshKey: '/b'}}}}",
        "sshKey",
        "sandbox.ssh_key_path",
    ),
    ("{workspace: '/srv/a', agents: {defaults: {workspace: '/srv/b'}}}", "agents.defaults.workspace", "workspace"),
    (
        "{agents: {entries: {ops: {sandbox: {workspace: 'ro', workspaceAccess: 'rw'}}}}}",
        "agents.entries.ops.sandbox.workspaceAccess",
        "agents.entries.ops.sandbox.workspace",
    ),
]


@pytest.mark.parametrize(("text", "where", "other"), DISAGREEMENTS)
def test_two_spellings_that_disagree_are_refused_and_both_are_named(
    text: str, where: str, other: str, refused: Callable[[str], str]
) -> None:
    message = refused(text)
    assert "disagrees with" in message
    assert where in message.split("disagrees with")[0]
    assert other in message.split("disagrees with")[1]


AGREEMENTS = [
    below_defaults("{workspace: 'ro', workspaceAccess: 'ro'}"),
    below_defaults("{user: '1:1', docker: {user: '1:1'}}"),
    below_defaults("{network: {allow: ['a.b']}, docker: {network: {allow: ['a.b']}}}"),
    below_defaults("{workspace: null, workspaceAccess: 'ro'}"),
    below_defaults("{workspaceAccess: 'ro', workspace: null}"),
    "{sandbox: {enabled: true}, agents: {defaults: {sandbox: {mode: 'all', scope: 'shared', workspace: 'rw'}}}}",
    "{sandbox: {enabled: false}, agents: {defaults: {sandbox: {scope: 'agent'}}}}",
    "{workspace: '/srv/a', agents: {defaults: {workspace: '/srv/a'}}}",
    "{workspace: null, agents: {defaults: {workspace: '/srv/a'}}}",
]


@pytest.mark.parametrize("text", AGREEMENTS)
def test_two_spellings_that_agree_are_one(text: str, load_text: Callable[[str], Settings]) -> None:
    load_text(text)


@pytest.mark.parametrize("order", list(permutations(["agents", "sandbox", "workspace"])))
def test_the_order_of_top_level_keys_means_nothing(
    order: tuple[str, ...], agent_of: Callable[..., AgentSettings]
) -> None:
    parts = {
        "agents": "agents: {defaults: {sandbox: {limits: {pids: 50}}}}",
        "sandbox": "sandbox: {enabled: true, network: 'bridge'}",
        "workspace": "workspace: '/srv/w'",
    }
    agent = agent_of("{" + ", ".join(parts[key] for key in order) + "}")
    assert (agent.workspace, agent.sandbox.scope, agent.sandbox.limits.pids) == ("/srv/w", "shared", 50)
    assert agent.sandbox.network.name == "bridge"


@pytest.mark.parametrize(
    "text",
    [
        "{agents: null, sandbox: {enabled: true}}",
        "{agents: {defaults: null, entries: null, list: null}, sandbox: {enabled: true}}",
        "{sandbox: {enabled: true, mounts: null, network: null, docker: null, host_commands: null}, workspace: null}",
        "{sandbox: {enabled: true}, agents: {defaults: {workspace: null, sandbox: null}, entries: {ops: null}}}",
        "{sandbox: {enabled: true}, agents: {defaults: {sandbox: {mode: null, docker: null, network: null}}}}",
        "{sandbox: {enabled: true, docker: {user: null}}}",
    ],
)
def test_null_is_not_set_in_every_spelling(text: str, agent_of: Callable[..., AgentSettings]) -> None:
    assert agent_of(text).sandbox == Sandbox(mode="all", scope="shared", workspace="rw")


WRONG = [
    ("{sandbox: {enabled: 1}}", "sandbox.enabled", "true or false"),
    ("{sandbox: {enabled: 'yes'}}", "sandbox.enabled", "true or false"),
    ("{sandbox: 'all'}", "sandbox", "must be an object"),
    ("{sandbox: {mode: 'all'}}", "sandbox.mode", "agents.defaults.sandbox"),
    ("{sandbox: {enabeld: null}}", "sandbox.enabeld", 'unknown key; did you mean "enabled"?'),
    ("{sandbox: {docker: {image: 'x'}}}", "sandbox.docker.image", "takes only user"),
    ("{sandbox: {docker: 5}}", "sandbox.docker", "must be an object"),
    ("{sandbox: {mounts: {}}}", "sandbox.mounts", "must be a list"),
    ("{sandbox: {mounts: ['/srv:/x']}}", "sandbox.mounts[0]", "host, container and mode"),
    ("{sandbox: {mounts: [{host: '/srv', container: '/x', readonly: true}]}}", "sandbox.mounts[0]", "no others"),
    ("{sandbox: {mounts: [{host: '/srv'}]}}", "sandbox.mounts[0]", "paths without a colon"),
    ("{sandbox: {mounts: [{host: '/srv:rw', container: '/x'}]}}", "sandbox.mounts[0]", "without a colon"),
    ("{sandbox: {mounts: [{host: '/srv', container: '/x', mode: 'RW'}]}}", "sandbox.mounts[0]", "ro or rw"),
    ("{sandbox: {mounts: [{host: '/etc', container: '/x', mode: 'ro'}]}}", "sandbox.mounts[0]", "system folder"),
    ("{sandbox: {host_commands: 'git'}}", "sandbox.host_commands", "must be a list"),
    ("{agents: {list: {}}}", "agents.list", "must be a list"),
    ("{agents: {list: [{tools: {}}]}}", "agents.list[0]", "needs an id"),
    ("{agents: {list: [{id: 5}]}}", "agents.list[0]", "needs an id"),
    ("{agents: {list: ['ops']}}", "agents.list[0]", "needs an id"),
    ("{agents: {list: [{id: 'ops'}, {id: 'OPS'}]}}", "agents.list[1]", "already defined at agents.list[0]"),
    ("{agents: {entries: {ops: {}}, list: [{id: 'ops'}]}}", "agents.list[0]", "already defined at agents.entries.ops"),
    ("{agents: {entries: [{id: 'ops'}]}}", "agents.entries", "agents.list"),
    ("{agents: {entries: {ops: 5}}}", "agents.entries.ops", "must be an object"),
    ("{agents: {entries: {'a b': {}}}}", 'agents.entries."a b"', "letters, digits"),
    ("{agents: 5}", "agents", "must be an object"),
    ("{agents: {defaults: []}}", "agents.defaults", "must be an object"),
    ("{agents: {deafults: null}}", "agents.deafults", 'did you mean "defaults"'),
    (below_defaults("{network: 5}"), "agents.defaults.sandbox.network", "must be a name"),
    (below_defaults("{network: 'allow'}"), "agents.defaults.sandbox.network", "allow: ["),
    (below_defaults("{network: {name: 'host'}}"), "agents.defaults.sandbox.network.name", "unknown key"),
    (below_defaults("{network: {alow: []}}"), "agents.defaults.sandbox.network.alow", 'did you mean "allow"'),
    (below_defaults("'all'"), "agents.defaults.sandbox", "must be an object"),
    (below_defaults("{moed: null}"), "agents.defaults.sandbox.moed", 'did you mean "mode"'),
]


@pytest.mark.parametrize(("text", "path", "said"), WRONG)
def test_what_cannot_be_translated_is_named_where_it_stands(
    text: str, path: str, said: str, refused: Callable[[str], str]
) -> None:
    message = refused(text)
    assert f": {path}: " in message
    assert said in message
