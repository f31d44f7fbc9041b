"""What `explain` answers: the shape of the contract, and the same verdicts that the gateway acts on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.backends.registry import Registry
from crabpot.decide import elevation, placement, policy, sessions
from crabpot.decide.tools import TOOLS
from crabpot.errors import SessionError
from crabpot.explain import Explainer
from crabpot.spec.build import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import Settings
    from crabpot.spec.binds import Surroundings

GROUP = "agent:main:telegram:group:-100123"
PUSHING = "{tools: {elevated: {enabled: true, patterns: ['brew *', 'git push *']}}}"


@pytest.fixture
def explain(load_text: Callable[..., Settings], around: Surroundings) -> Callable[..., dict[str, Any]]:
    def answer(text: str, key: str = GROUP, command: str | None = None, sender: str | None = None) -> dict[str, Any]:
        explainer = Explainer(settings=load_text(text), around=around, registry=Registry({}))
        return asyncio.run(explainer.explain(key, command, sender=sender))

    return answer


def test_an_answer_has_the_shape_of_the_contract(explain: Callable[..., dict[str, Any]]) -> None:
    answer = explain(PUSHING, command="git push")
    assert list(answer) == ["session", "agent", "placement", "sandbox", "tools", "elevated", "command", "warnings"]
    assert set(answer["placement"]) == {"where", "because", "source"}
    assert set(answer["sandbox"]) == {"mode", "scope", "workspace", "backend", "network", "name", "hash", "clauses"}
    assert set(answer["tools"]) == {"profile", "effective", "denied"}
    assert set(answer["elevated"]) == {"enabled", "patterns", "clauses"}
    row = {"pattern", "approval", "reachable", "confine", "writes", "credentials"}
    assert all(set(one) == row for one in answer["elevated"]["patterns"])
    assert {clause["state"] for clause in answer["elevated"]["clauses"]} <= {"enforced", "degraded"}
    assert set(answer["command"]) == {"argv", "where", "approval", "confine", "because"}
    assert answer["command"]["confine"] == "guarded"
    assert isinstance(answer["warnings"], list)
    assert explain(PUSHING)["command"] is None


def test_an_answer_says_where_the_folder_and_the_home_are_if_not_where_they_usually_are(
    explain: Callable[..., dict[str, Any]],
) -> None:
    body = "workspace: '/srv/project', sandbox: {workspace: 'rw', workspaceAt: 'same', home: 'claude'}"
    answer = explain(f"{{agents: {{defaults: {{{body}}}}}}}")
    assert (answer["sandbox"]["workspaceAt"], answer["sandbox"]["home"]) == ("same", "claude")


def test_the_answers_are_those_of_the_deciding_functions(
    explain: Callable[..., dict[str, Any]], load_text: Callable[..., Settings], around: Surroundings
) -> None:
    text = (
        "{agents: {defaults: {sandbox: {mode: 'non-main', scope: 'agent'}}}, tools: {profile: 'coding', deny: ['ls']}}"
    )
    agent = load_text(text).agent("main")
    for key in (GROUP, "agent:main:main"):
        answer = explain(text, key)
        placed = placement.decide(sessions.parse(key), agent)
        assert answer["placement"] == {"where": placed.answer.where, "because": placed.because, "source": placed.source}
        sandboxed = placed.answer.scope_key is not None
        assert answer["tools"]["effective"] == list(policy.effective(agent, sandboxed=sandboxed))
        for tool, rule in answer["tools"]["denied"].items():
            assert rule == policy.decide(tool, agent, sandboxed=sandboxed).source
        spec = build(agent, placed.answer.scope_key, around) if placed.answer.scope_key else None
        assert (answer["sandbox"]["name"], answer["sandbox"]["hash"]) == (spec and spec.name, spec and spec.hash)


def test_a_tool_is_either_effective_or_denied(explain: Callable[..., dict[str, Any]]) -> None:
    tools = explain("{tools: {profile: 'coding', deny: ['write'], extra: ['weather']}}")["tools"]
    assert not set(tools["effective"]) & set(tools["denied"])
    assert {*tools["effective"], *tools["denied"]} == {*TOOLS, "weather"}


PROFILES = [
    ("{}", "full"),
    ("{tools: {allow: ['ls']}}", None),
    ("{tools: {profile: 'coding', allow: ['tts']}}", "coding"),
]


@pytest.mark.parametrize(("text", "profile"), PROFILES)
def test_the_profile_is_the_one_that_holds(
    text: str, profile: str | None, explain: Callable[..., dict[str, Any]]
) -> None:
    assert explain(text)["tools"]["profile"] == profile


ON_HOST = "{agents: {defaults: {sandbox: {mode: 'off'}}}, tools: {elevated: {enabled: true, patterns: ['git push *']}}}"
NO_EXEC = "{tools: {deny: ['group:runtime'], elevated: {enabled: true, patterns: ['git push *']}}}"
UNASKED = "{tools: {elevated: {enabled: true, patterns: ['git push *'], requireApproval: false}}}"
SENDERS = "{tools: {elevated: {enabled: true, patterns: ['git push *'], allowFrom: ['me']}}}"
COMMANDS = [
    (
        PUSHING,
        "git push origin main",
        None,
        ("host", True),
        'matches the pattern "git push *" (tools.elevated.patterns[1])',
    ),
    (PUSHING, "git push; id", None, ("sandbox", False), 'not one simple command: ";" is an operator'),
    (PUSHING, "ls", None, ("sandbox", False), "no elevated pattern matches (tools.elevated.patterns)"),
    (PUSHING, "'git' push", None, ("sandbox", False), "is quoted or escaped"),
    (PUSHING, "git push --mirror", None, ("blocked", False), "git push: --mirror is not carried out for a sandbox"),
    (UNASKED, "git push", None, ("host", False), "matches the pattern"),
    ("{}", "git push", None, ("sandbox", False), "no elevated pattern is configured"),
    (ON_HOST, "rm -rf x; id", None, ("host", False), "sandbox mode is off (agents.defaults.sandbox.mode)"),
    (ON_HOST, "git push", None, ("host", False), "sandbox mode is off"),
    (
        NO_EXEC,
        "git push",
        None,
        ("blocked", False),
        'exec is not allowed: deny is absolute (tools.deny[0] "group:runtime")',
    ),
    (
        "{tools: {profile: 'minimal'}}",
        "ls",
        None,
        ("blocked", False),
        'not in the profile, nor in allow (tools.profile "minimal")',
    ),
    (SENDERS, "git push", "me", ("host", True), "matches the pattern"),
    (SENDERS, "git push", "you", ("sandbox", False), 'the sender "you" is not in allowFrom'),
    (SENDERS, "git push", None, ("sandbox", False), "an unnamed sender is not in allowFrom"),
]


@pytest.mark.parametrize("row", COMMANDS)
def test_a_command_is_answered_with_where_and_why(
    row: tuple[str, str, str | None, tuple[str, bool], str], explain: Callable[..., dict[str, Any]]
) -> None:
    text, command, sender, answered, because = row
    answer = explain(text, command=command, sender=sender)["command"]
    assert (answer["where"], answer["approval"]) == answered
    assert because in answer["because"]


@pytest.mark.parametrize("text", ["{}", PUSHING, ON_HOST, NO_EXEC])
def test_the_words_are_given_wherever_the_command_runs(text: str, explain: Callable[..., dict[str, Any]]) -> None:
    assert explain(text, command="git push 'a b'")["command"]["argv"] == ["git", "push", "a b"]
    assert explain(text, command="git push; id")["command"]["argv"] is None


REACHABLE = [
    (PUSHING, GROUP, True),
    (ON_HOST, GROUP, False),
    (NO_EXEC, GROUP, False),
    ("{tools: {elevated: {patterns: ['ls']}}}", GROUP, False),
    ("{tools: {elevated: {enabled: true, patterns: ['/bin/ls']}}}", GROUP, False),
    (
        "{agents: {defaults: {sandbox: {mode: 'non-main'}}}, tools: {elevated: {enabled: true, patterns: ['ls']}}}",
        GROUP,
        True,
    ),
    (
        "{agents: {defaults: {sandbox: {mode: 'non-main'}}}, tools: {elevated: {enabled: true, patterns: ['ls']}}}",
        "main",
        False,
    ),
    ("{sandbox: {enabled: true, host_commands: ['git']}}", GROUP, True),
]


@pytest.mark.parametrize(("text", "key", "reachable"), REACHABLE)
def test_a_pattern_is_reachable_only_where_a_command_could_take_it(
    text: str, key: str, explain: Callable[..., dict[str, Any]], *, reachable: bool
) -> None:
    assert {row["reachable"] for row in explain(text, key)["elevated"]["patterns"]} == {reachable}


def test_every_way_out_is_shown(explain: Callable[..., dict[str, Any]], load_text: Callable[..., Settings]) -> None:
    text = "{sandbox: {enabled: true, host_commands: ['hg']}, tools: {elevated: {patterns: ['ls'], requireApproval: false}}}"
    rows = explain(text)["elevated"]["patterns"]
    assert [row["pattern"] for row in rows] == [rule.pattern for rule in elevation.rules(load_text(text).agent("main"))]
    assert [(row["approval"], row["reachable"]) for row in rows] == [(False, False), (True, True)]


def test_on_the_host_there_is_no_sandbox_to_name(explain: Callable[..., dict[str, Any]]) -> None:
    sandbox = explain(ON_HOST)["sandbox"]
    assert (sandbox["mode"], sandbox["name"], sandbox["hash"], sandbox["clauses"]) == ("off", None, None, [])


@pytest.mark.parametrize("written", ["none", "HOST", "my-net"])
def test_a_network_is_shown_as_it_is_written(written: str, explain: Callable[..., dict[str, Any]]) -> None:
    assert explain(f"{{sandbox: {{network: '{written}'}}}}")["sandbox"]["network"] == written
    places = explain("{sandbox: {network: {allow: ['A.b']}}}")["sandbox"]["network"]
    assert places == {"allow": ["A.b"], "ask": False}


def test_a_session_belongs_to_the_agent_that_its_key_names(explain: Callable[..., dict[str, Any]]) -> None:
    text = "{agents: {entries: {ops: {sandbox: {mode: 'off'}, tools: {profile: 'minimal'}}}}}"
    answer = explain(text, "agent:OPS:chat")
    assert (answer["agent"], answer["placement"]["where"], answer["tools"]["profile"]) == ("ops", "host", "minimal")
    assert answer["placement"]["source"] == "agents.entries.ops.sandbox.mode"
    assert explain(text, "nonsense")["agent"] == "main"


def test_an_empty_session_key_is_an_error(explain: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(SessionError):
        explain("{}", "")


def test_warnings_are_those_of_check(explain: Callable[..., dict[str, Any]]) -> None:
    (warning,) = explain("{sandbox: {network: 'host'}}")["warnings"]
    assert warning.startswith("sandbox.network: the sandbox has the host's network")
    assert explain("{}")["warnings"] == []


@pytest.mark.parametrize(
    ("command", "where"),
    [("git push origin main", "host"), ("git status", "blocked"), ("brew install jq", "host"), ("make all", "blocked")],
)
def test_from_a_session_under_review_only_what_needs_no_folder_leaves(
    explain: Callable[..., dict[str, Any]], command: str, where: str
) -> None:
    text = (
        "{agents: {defaults: {sandbox: {workspace: 'review'}}}, "
        "tools: {elevated: {enabled: true, patterns: ['brew *', 'git *', 'make *']}}}"
    )
    told = explain(text, command=command)
    reachable = {row["pattern"]: row["reachable"] for row in told["elevated"]["patterns"]}
    assert reachable == {"brew *": True, "git *": True, "make *": False}
    answer = told["command"]
    assert answer["where"] == where
    assert ("apply first" in answer["because"]) == (where == "blocked")
