"""An agent's layer over the defaults: what adds up, what is replaced, and what nothing can wipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crabpot.decide import policy
from crabpot.settings import Network, Sandbox, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import AgentSettings, Settings


def layered(defaults: str = "{}", entry: str = "{}", tools: str = "{}") -> str:
    return f"{{agents: {{defaults: {defaults}, entries: {{ops: {entry}}}}}, tools: {tools}}}"


def test_an_agent_without_an_entry_uses_the_defaults(load_text: Callable[[str], Settings]) -> None:
    settings = load_text(layered("{sandbox: {mode: 'off'}}", "{sandbox: {mode: 'all'}}", "{profile: 'coding'}"))
    other = settings.agent("nobody")
    assert (other.id, other.sandbox.mode, other.tools.profile) == ("nobody", "off", "coding")
    assert settings.agent("ops").sandbox.mode == "all"


def test_an_agents_keys_lie_over_the_defaults_one_by_one(agent_of: Callable[..., AgentSettings]) -> None:
    base = "{sandbox: {scope: 'agent', limits: {memory: '1g', pids: 50}, env: {A: '1', B: '2'}, prune: {idleHours: 1}}}"
    over = "{sandbox: {limits: {pids: 60}, env: {B: '3'}}}"
    sandbox = agent_of(layered(base, over), "ops").sandbox
    assert sandbox.scope == "agent"
    assert (sandbox.limits.memory, sandbox.limits.pids) == (Size.parse("1g"), 60)
    assert sandbox.env == {"A": "1", "B": "3"}
    assert (sandbox.prune.idle_hours, sandbox.prune.max_age_days) == (1, 7)


def test_binds_deny_and_allow_lists_add_up_with_the_defaults_first(agent_of: Callable[..., AgentSettings]) -> None:
    agent = agent_of(
        layered(
            "{sandbox: {binds: ['/srv/a:/a']}}",
            "{sandbox: {binds: ['/srv/b:/b']}, tools: {allow: ['cron'], deny: ['tts'],"
            " sandbox: {allow: ['cron'], deny: ['ls']}}}",
            "{profile: 'minimal', allow: ['image'], deny: ['exec'], sandbox: {allow: ['image'], deny: ['read']}}",
        ),
        "ops",
    )
    assert agent.sandbox.binds == ("/srv/a:/a", "/srv/b:/b")
    assert (agent.tools.allow, agent.tools.deny) == (("image", "cron"), ("exec", "tts"))
    assert (agent.tools.sandbox.allow, agent.tools.sandbox.deny) == (("image", "cron"), ("read", "ls"))
    assert agent.source("tools.deny[0]") == "tools.deny[0]"
    assert agent.source("tools.deny[1]") == "agents.entries.ops.tools.deny[0]"


def test_the_same_bind_in_both_layers_is_one(agent_of: Callable[..., AgentSettings]) -> None:
    text = layered("{sandbox: {binds: ['/srv/a:/a:ro']}}", "{sandbox: {binds: ['/srv/a:/a']}}")
    assert agent_of(text, "ops").sandbox.binds == ("/srv/a:/a:ro", "/srv/a:/a")


def test_an_agents_bind_that_would_hide_one_of_the_defaults_is_refused(refused: Callable[[str], str]) -> None:
    text = layered("{sandbox: {binds: ['/srv/a:/a:ro']}}", "{sandbox: {binds: ['/srv/a:/a:rw']}}")
    assert "agents.entries.ops.sandbox.binds[0]" in refused(text)


def test_other_lists_are_replaced(agent_of: Callable[..., AgentSettings]) -> None:
    agent = agent_of(
        layered(
            "{sandbox: {hostCommands: ['git']}}",
            "{sandbox: {hostCommands: ['hg']}, tools: {extra: ['b'], elevated: {patterns: ['b'], allowFrom: ['b']}}}",
            "{extra: ['a'], elevated: {enabled: true, patterns: ['a'], allowFrom: ['a'], passEnv: ['A']}}",
        ),
        "ops",
    )
    assert agent.sandbox.host_commands == ("hg",)
    assert agent.tools.extra == ("b",)
    elevated = agent.tools.elevated
    assert (elevated.enabled, elevated.patterns, elevated.allow_from, elevated.pass_env) == (
        True,
        ("b",),
        ("b",),
        ("A",),
    )


def test_a_rule_about_an_extra_tool_stays_known_to_an_agent_that_declares_others(
    agent_of: Callable[..., AgentSettings],
) -> None:
    text = layered(entry="{tools: {extra: ['b'], allow: ['b']}}", tools="{extra: ['a'], allow: ['a'], deny: ['A']}")
    agent = agent_of(text, "ops")
    assert (agent.tools.extra, agent.tools.deny) == (("b",), ("A",))
    assert policy.effective(agent, sandboxed=True) == ("b",)


def test_an_agents_profile_replaces_the_global_one(agent_of: Callable[..., AgentSettings]) -> None:
    agent = agent_of(layered(entry="{tools: {profile: 'full'}}", tools="{profile: 'minimal'}"), "ops")
    assert agent.tools.profile == "full"
    assert agent.source("tools.profile") == "agents.entries.ops.tools.profile"


NETWORKS = [
    ("'host'", "'none'", Network(name="none")),
    ("'host'", "{allow: ['a.b']}", Network(name="allow", allow=("a.b",))),
    ("{allow: ['a.b'], ask: true}", "'none'", Network(name="none")),
    ("{allow: ['a.b'], ask: true}", "{allow: ['c.d']}", Network(name="allow", allow=("a.b", "c.d"), ask=True)),
    ("{allow: ['a.b']}", "{ask: true}", Network(name="allow", allow=("a.b",), ask=True)),
    ("{allow: ['a.b']}", "null", Network(name="allow", allow=("a.b",))),
]


@pytest.mark.parametrize(("base", "over", "expected"), NETWORKS)
def test_a_network_by_name_replaces_a_list_of_places_and_two_lists_add_up(
    base: str, over: str, expected: Network, agent_of: Callable[..., AgentSettings]
) -> None:
    text = layered(f"{{sandbox: {{network: {base}}}}}", f"{{sandbox: {{network: {over}}}}}")
    assert agent_of(text, "ops").sandbox.network == expected


# Each wiped what the layer below denied or narrowed, until null stopped meaning anything but "not set".
NULLS = [
    "{tools: null}",
    "{tools: {deny: null}}",
    "{tools: {profile: null}}",
    "{tools: {sandbox: null}}",
    "{tools: {sandbox: {deny: null, allow: null}}}",
    "{tools: {elevated: null}}",
    "{tools: {elevated: {requireApproval: null, patterns: null}}}",
    "{sandbox: null}",
    "{sandbox: {mode: null, network: null, limits: null, binds: null}}",
    "{sandbox: {limits: {pids: null, io: null}, env: {A: null}, docker: null}}",
    "{workspace: null}",
    "null",
]


@pytest.mark.parametrize("entry", NULLS)
def test_null_never_wipes_what_the_layer_below_says(entry: str, agent_of: Callable[..., AgentSettings]) -> None:
    base = "{workspace: '/srv/w', sandbox: {mode: 'non-main', limits: {pids: 9}, env: {A: '1'}, binds: ['/srv/a:/a']}}"
    tools = (
        "{profile: 'coding', deny: ['write'], sandbox: {deny: ['read']},"
        " elevated: {enabled: true, patterns: ['ls'], requireApproval: false}}"
    )
    plain, nulled = (agent_of(layered(base, each, tools), "ops") for each in ("{}", entry))
    assert (nulled.workspace, nulled.sandbox, nulled.tools) == (plain.workspace, plain.sandbox, plain.tools)
    assert not policy.decide("write", nulled, sandboxed=True).answer


@pytest.mark.parametrize("text", ["{tools: null}", "{runner: null}", "{agents: null}", "{agents: {defaults: null}}"])
def test_null_in_place_of_a_whole_section_leaves_the_defaults(text: str, load_text: Callable[[str], Settings]) -> None:
    loaded, empty = load_text(text), load_text("{}")
    assert (loaded.defaults, loaded.runner, loaded.entries) == (empty.defaults, empty.runner, empty.entries)


def test_a_null_counts_as_nowhere_written(agent_of: Callable[..., AgentSettings]) -> None:
    agent = agent_of(layered(entry="{tools: {profile: null}}"), "ops")
    assert agent.source("tools.profile") == "default"
    assert agent_of("{agents: {defaults: {sandbox: {mode: null}}}}").sandbox == Sandbox()


def test_an_agents_own_empty_allow_is_refused_though_it_would_vanish_in_the_merge(
    refused: Callable[[str], str],
) -> None:
    text = layered(entry="{tools: {allow: []}}", tools="{allow: ['read']}")
    assert "agents.entries.ops.tools.allow: an empty allow" in refused(text)


def test_agents_are_named_without_regard_to_letter_case(load_text: Callable[[str], Settings]) -> None:
    settings = load_text("{agents: {entries: {Ops: {sandbox: {mode: 'off'}}}}}")
    assert settings.agent("ops").sandbox.mode == "off"
    assert settings.agent("ops").source("sandbox.mode") == "agents.entries.Ops.sandbox.mode"
