"""Which tools: each verdict, the rule that made it, and where that rule stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crabpot.decide.policy import canonical, covered, decide, effective, listed, problem_with, problem_with_extra
from crabpot.decide.tools import GROUPS, TOOLS
from crabpot.settings import AgentSettings, SandboxTools, Tools

if TYPE_CHECKING:
    from collections.abc import Callable


def agent(**tools: object) -> AgentSettings:
    return AgentSettings(id="main", tools=Tools(**tools))  # type: ignore[arg-type]


def left(**tools: object) -> set[str]:
    return set(effective(agent(**tools), sandboxed=False))


NAMES = [
    ("exec", "exec"),
    (" exec\t", "exec"),
    ("EXEC", "exec"),
    ("Bash", "exec"),
    (" BASH ", "exec"),
    ("apply-patch", "apply_patch"),
    ("APPLY-PATCH", "apply_patch"),
    ("Group:FS", "group:fs"),
]


@pytest.mark.parametrize(("name", "expected"), NAMES)
def test_names_are_trimmed_lower_cased_and_aliased(name: str, expected: str) -> None:
    assert canonical(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "exec\n",
        "\nexec",
        "exec\u00a0",
        "\u200bexec",
        "ex\u0435c",
        "exec\0",
        "\uff45\uff58\uff45\uff43",
        "e\u212aec",
        "exec\r",
    ],
)
def test_what_only_looks_like_a_name_is_no_such_tool(name: str) -> None:
    verdict = decide(name, agent(), sandboxed=True)
    assert not verdict.answer
    assert verdict.because.startswith("no such tool")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raed", 'no such tool; did you mean "read"?'),
        ("exce", 'no such tool; did you mean "exec"?'),
        ("nonsense", "no such tool"),
        ("rea" + "d" * 1_000_000, "no such tool"),
    ],
)
def test_a_name_that_is_near_a_tools_is_told_so(name: str, said: str) -> None:
    assert decide(name, agent(), sandboxed=True).because == said


def test_nobody_is_told_the_name_of_a_tool_that_is_denied() -> None:
    assert decide("raed", agent(deny=("read",)), sandboxed=True).because == "no such tool"


def test_a_letter_that_folds_to_an_ascii_one_names_no_tool() -> None:
    pager = agent(extra=("kill",))
    assert decide("KILL", pager, sandboxed=True).answer
    assert decide("\u212aill", pager, sandboxed=True).because == 'no such tool; did you mean "kill"?'
    assert problem_with("\u212aill", ["kill"])


PROFILED: list[tuple[dict[str, object], set[str]]] = [
    ({}, set(TOOLS)),
    ({"profile": "full"}, set(TOOLS)),
    ({"profile": "coding"}, {*GROUPS["group:fs"], *GROUPS["group:runtime"], "browser"}),
    ({"profile": "messaging"}, {"message", "web_search", "web_fetch"}),
    ({"profile": "minimal"}, {"web_search"}),
    ({"allow": ("read",)}, {"read"}),
    ({"allow": ("group:media", "BASH")}, {"image", "tts", "exec"}),
    ({"profile": "minimal", "allow": ("read",)}, {"web_search", "read"}),
    ({"profile": "minimal", "allow": ("web_search",), "deny": ("web_search",)}, set()),
    ({"allow": ("*",), "deny": ("sessions_*",)}, set(TOOLS) - {"sessions_spawn", "sessions_send"}),
    ({"deny": ("*",)}, set()),
    ({"deny": ("bash",)}, set(TOOLS) - {"exec"}),
    ({"deny": (" Apply-Patch ",)}, set(TOOLS) - {"apply_patch"}),
    ({"deny": ("write",)}, set(TOOLS) - {"write", "apply_patch"}),
    ({"deny": ("wr*",)}, set(TOOLS) - {"write", "apply_patch"}),
    (
        {"profile": "coding", "deny": ("write",), "allow": ("apply_patch",)},
        {"read", "edit", "grep", "glob", "ls", "exec", "process", "browser"},
    ),
    ({"allow": ("write",)}, {"write"}),
    ({"extra": ("Weather",)}, {*TOOLS, "weather"}),
    ({"profile": "minimal", "extra": ("weather",)}, {"web_search"}),
    ({"profile": "minimal", "extra": ("weather",), "allow": ("WEATHER",)}, {"web_search", "weather"}),
]


@pytest.mark.parametrize(("tools", "expected"), PROFILED)
def test_effective_is_profile_and_allow_minus_deny(tools: dict[str, object], expected: set[str]) -> None:
    assert left(**tools) == expected


def test_effective_keeps_the_order_of_the_catalogue_with_extras_last() -> None:
    assert effective(agent(extra=("zeta", "alpha", "exec")), sandboxed=True) == (*TOOLS, "zeta", "alpha")


GLOBS = [
    ("sessions_*", "sessions_spawn", True),
    ("*", "exec", True),
    ("*exec*", "exec", True),
    ("e*c", "exec", True),
    ("e*e*c", "exec", True),
    ("e*x*x*c", "exec", False),
    ("*_fetch", "web_fetch", True),
    ("web_?????", "web_fetch", False),
    ("[e]xec", "exec", False),
    ("exe.", "exec", False),
    ("ex(e)c*", "exec", False),
    ("exec|read*", "exec", False),
    ("*.", "exec", False),
    ("ex*ec", "exec", True),
    ("exe*ec", "exec", False),
]


@pytest.mark.parametrize(("pattern", "name", "matches"), GLOBS)
def test_in_a_glob_only_the_star_is_special(pattern: str, name: str, *, matches: bool) -> None:
    assert (name in covered(pattern, agent())) is matches


def test_a_long_name_and_many_stars_are_decided_in_no_time() -> None:
    greedy = agent(deny=("a__" + "*a" * 30 + "*b",))
    assert not decide("a__" + "a" * 100_000, greedy, sandboxed=True).answer
    assert decide("a__" + "a" * 100, greedy, sandboxed=True).answer


SOURCES = [
    ("{}", "exec", True, 'tools.profile "full" (default)'),
    ("{tools: {profile: 'coding'}}", "exec", True, 'tools.profile "coding"'),
    ("{tools: {profile: 'coding'}}", "cron", False, 'tools.profile "coding"'),
    ("{tools: {profile: 'minimal', allow: ['ls', 'BASH']}}", "exec", True, 'tools.allow[1] "BASH"'),
    ("{tools: {allow: ['ls']}}", "exec", False, "tools.allow"),
    ("{tools: {deny: ['browser', 'group:automation']}}", "cron", False, 'tools.deny[1] "group:automation"'),
    ("{tools: {deny: ['sessions_*']}}", "sessions_send", False, 'tools.deny[0] "sessions_*"'),
    ("{tools: {deny: ['write']}}", "apply_patch", False, 'tools.deny[0] "write"'),
    ("{tools: {sandbox: {deny: ['exec']}}}", "exec", False, 'tools.sandbox.deny[0] "exec"'),
    ("{tools: {sandbox: {allow: ['read']}}}", "exec", False, "tools.sandbox.allow"),
    ("{tools: {deny: ['exec'], sandbox: {deny: ['exec']}}}", "exec", False, 'tools.deny[0] "exec"'),
    ("{agents: {entries: {main: {tools: {deny: ['ls']}}}}}", "ls", False, 'agents.entries.main.tools.deny[0] "ls"'),
    (
        "{agents: {list: [{id: 'main', tools: {profile: 'minimal'}}]}}",
        "ls",
        False,
        'agents.list[0].tools.profile "minimal"',
    ),
]


@pytest.mark.parametrize(("text", "tool", "answer", "source"), SOURCES)
def test_a_verdict_names_the_rule_and_where_it_stands(
    text: str, tool: str, source: str, agent_of: Callable[..., AgentSettings], *, answer: bool
) -> None:
    verdict = decide(tool, agent_of(text), sandboxed=True)
    assert (verdict.answer, verdict.source) == (answer, source)


def test_the_sandboxs_own_filter_is_for_sandboxed_sessions_only() -> None:
    narrowed = agent(sandbox=SandboxTools(allow=("read", "exec"), deny=("exec",)))
    assert effective(narrowed, sandboxed=True) == ("read",)
    assert effective(narrowed, sandboxed=False) == TOOLS


def test_the_sandboxs_own_allow_grants_nothing() -> None:
    assert effective(agent(profile="minimal", sandbox=SandboxTools(allow=("exec", "web_search"))), sandboxed=True) == (
        "web_search",
    )


def test_the_sandboxs_own_deny_of_write_denies_apply_patch() -> None:
    assert not decide("apply_patch", agent(sandbox=SandboxTools(deny=("write",))), sandboxed=True).answer


@pytest.mark.parametrize("name", ["github__push", "a.b__c", "GitHub__Push", "a__b__c"])
def test_tools_of_mcp_servers_are_decided_by_the_same_rules(name: str) -> None:
    assert decide(name, agent(), sandboxed=True).answer
    assert not decide(name, agent(profile="coding"), sandboxed=True).answer
    assert decide(name, agent(profile="coding", allow=("*__*",)), sandboxed=True).answer
    assert not decide(name, agent(deny=(name,)), sandboxed=True).answer
    assert not decide(name, agent(deny=("*__*",)), sandboxed=True).answer


@pytest.mark.parametrize("name", ["__x", "x__", "_a__b", "a b__c", "a__b\n", "\u00e9__x", "x" * 100 + "__" + "y" * 100])
def test_what_no_mcp_server_can_be_called_is_no_such_tool(name: str) -> None:
    assert decide(name, agent(), sandboxed=True).because == "no such tool"


def test_unknown_names_are_problems_and_extras_are_not() -> None:
    assert problem_with("exec") is None
    assert problem_with("weather") is not None
    assert problem_with("weather", ["Weather"]) is None
    assert problem_with("group:*") is not None
    assert problem_with("srv__tool") is None
    assert problem_with_extra("weather") is None
    assert problem_with_extra("a" * 129) is not None


def test_every_known_tool_is_listed_once() -> None:
    assert listed(agent(extra=("bash", "EXEC", "x", "X "))) == (*TOOLS, "x")
