"""When one command may leave: who, with which arguments, by which pattern, and whether a person must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.decide.elevation import Decision, decide, decide_host_command, is_open, rules
from crabpot.settings import AgentSettings, Elevated, Sandbox, Tools

if TYPE_CHECKING:
    from collections.abc import Callable


def agent(*host_commands: str, **elevated: Any) -> AgentSettings:
    return AgentSettings(
        id="main", sandbox=Sandbox(host_commands=host_commands), tools=Tools(elevated=Elevated(**elevated))
    )


OPEN = {"enabled": True, "patterns": ("git push *",)}
PUSH = {"command": "git push origin main"}


def test_a_match_needs_a_persons_word_and_names_the_pattern_and_its_place(
    agent_of: Callable[..., AgentSettings],
) -> None:
    settings = agent_of("{tools: {elevated: {enabled: true, patterns: ['brew *', 'git push *']}}}")
    verdict = decide(PUSH, settings, sender=None)
    assert verdict.answer.decision is Decision.NEEDS_APPROVAL
    assert (verdict.answer.argv, verdict.answer.pattern) == (("git", "push", "origin", "main"), "git push *")
    assert (verdict.because, verdict.source) == ('matches the pattern "git push *"', "tools.elevated.patterns[1]")


def test_only_where_approval_is_waived_does_a_command_go_out_unasked() -> None:
    assert decide(PUSH, agent(**OPEN, require_approval=False), sender=None).answer.decision is Decision.ELEVATED


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (agent(), "no elevated pattern is configured"),
        (agent(enabled=True), "no elevated pattern is configured"),
        (agent(enabled=False, patterns=("git push *",)), "elevated is not enabled"),
        (agent(enabled=True, patterns=("ls",)), "no elevated pattern matches"),
        (agent(enabled=True, patterns=("/usr/bin/git *",)), "no elevated pattern matches"),
        (agent(enabled=True, patterns=("*",)), "no elevated pattern matches"),
    ],
)
def test_without_an_open_way_everything_stays_in(settings: AgentSettings, said: str) -> None:
    verdict = decide(PUSH, settings, sender=None)
    assert (verdict.answer.decision, verdict.because) == (Decision.SANDBOXED, said)


@pytest.mark.parametrize(
    "extra", [{"env": {}}, {"env": {"A": "1"}}, {"stdin": ""}, {"stdin": "x"}, {"tty": True}, {"env": {}, "tty": True}]
)
def test_a_call_with_environment_input_or_terminal_does_not_leave(extra: dict[str, Any]) -> None:
    verdict = decide({**PUSH, **extra}, agent(**OPEN, require_approval=False), sender=None)
    assert verdict.answer.decision is Decision.SANDBOXED
    assert "is never elevated" in verdict.because


@pytest.mark.parametrize(
    "extra", [{"env": None}, {"stdin": None}, {"tty": False}, {"tty": None}, {"cwd": "x"}, {"timeout": 5}]
)
def test_a_call_with_other_arguments_may(extra: dict[str, Any]) -> None:
    assert decide({**PUSH, **extra}, agent(**OPEN), sender=None).answer.decision is Decision.NEEDS_APPROVAL


@pytest.mark.parametrize("command", [None, 5, [], ["git", "push"], {"a": 1}, ""])
def test_a_command_that_is_no_text_stays_in(command: Any) -> None:
    assert decide({"command": command}, agent(**OPEN), sender=None).answer.decision is Decision.SANDBOXED
    assert decide({}, agent(**OPEN), sender=None).answer.decision is Decision.SANDBOXED


SENDERS = [
    (None, None, True),
    (None, "anybody", True),
    (("me",), "me", True),
    (("you", "me"), "me", True),
    (("me",), None, False),
    (("me",), "Me", False),
    (("me",), "me ", False),
    (("me",), "", False),
    (("",), "", True),
    (("",), None, False),
    ((), "me", False),
    ((), None, False),
]


@pytest.mark.parametrize(("allowed", "sender", "may"), SENDERS)
def test_where_senders_are_listed_only_they_may(
    allowed: tuple[str, ...] | None, sender: str | None, *, may: bool
) -> None:
    for settings in (agent(**OPEN, allow_from=allowed), agent("git", allow_from=allowed)):
        verdict = decide(PUSH, settings, sender=sender)
        assert (verdict.answer.decision is Decision.NEEDS_APPROVAL) is may
        assert may or "is not in allowFrom" in verdict.because


def test_the_sender_is_never_taken_from_the_arguments() -> None:
    verdict = decide({**PUSH, "sender": "me", "allowFrom": ["x"]}, agent(**OPEN, allow_from=("me",)), sender=None)
    assert verdict.answer.decision is Decision.SANDBOXED


def test_a_host_command_is_a_pattern_with_approval_whether_or_not_elevated_is_enabled() -> None:
    for elevated in ({}, {"enabled": False, "require_approval": False}, {"enabled": True, "require_approval": False}):
        settings = agent("git", "docker", **elevated)
        for command in ("git", "git status", "docker ps -a"):
            assert decide({"command": command}, settings, sender=None).answer.decision is Decision.NEEDS_APPROVAL, (
                command
            )
        assert decide({"command": "ls"}, settings, sender=None).answer.decision is Decision.SANDBOXED


def test_every_way_out_is_listed_with_where_it_is_written(agent_of: Callable[..., AgentSettings]) -> None:
    text = "{tools: {elevated: {patterns: ['ls'], requireApproval: false}}, sandbox: {host_commands: ['git']}}"
    listed = [(rule.pattern, rule.source, rule.approval, rule.enabled) for rule in rules(agent_of(text))]
    assert listed == [
        ("ls", "tools.elevated.patterns[0]", False, False),
        ("git *", "sandbox.host_commands[0]", True, True),
    ]


PATTERNS = st.lists(
    st.sampled_from(["git push *", "git *", "ls", "brew *", "*", "a/b", "git push origin *"]), max_size=4
)
COMMANDS = st.sampled_from(["git push", "git push origin", "ls", "brew x", "git push; id", "sh", "'git' push", ""])


@given(patterns=PATTERNS, command=COMMANDS, approval=st.booleans(), data=st.data())
def test_the_order_of_patterns_means_nothing_and_taking_one_away_never_opens(
    patterns: list[str], command: str, data: st.DataObject, *, approval: bool
) -> None:
    def answer(chosen: list[str]) -> Decision:
        settings = agent(enabled=True, patterns=tuple(chosen), require_approval=approval)
        return decide({"command": command}, settings, sender=None).answer.decision

    assert answer(data.draw(st.permutations(patterns))) is answer(patterns)
    assert all(answer(patterns[:at] + patterns[at + 1 :]) >= answer(patterns) for at in range(len(patterns)))


def test_the_strictest_answer_is_the_highest() -> None:
    assert max(Decision) is Decision.SANDBOXED
    assert min(Decision) is Decision.ELEVATED


def test_what_a_host_command_is_granted_is_written_in_a_pattern_for_its_words() -> None:
    alone = decide_host_command(("make", "all"), agent("make")).answer.rule
    assert alone is not None
    assert alone.grants == 'a pattern "make *" in tools.elevated.patterns'
    beside = decide_host_command(("make", "all"), agent("make", patterns=("ls", "make *"))).answer.rule
    assert beside is not None
    assert beside.grants != alone.grants


def test_a_listed_subcommand_is_asked_for_and_nothing_else_of_that_program() -> None:
    pushes = agent("git push")
    asked = decide_host_command(("git", "push", "origin", "main"), pushes)
    assert (asked.answer.decision, asked.answer.pattern) == (Decision.NEEDS_APPROVAL, "git push *")
    for argv in (("git",), ("git", "status"), ("git", "-c", "x=y", "push"), ("git push",), ("git", "pushed"), ()):
        assert decide_host_command(argv, pushes).answer.decision is Decision.SANDBOXED, argv


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("patterns", [(), ("make *",)])
@pytest.mark.parametrize("shims", [(), ("tool",)])
def test_a_way_out_is_open_just_where_a_rule_is_enabled(
    enabled: bool,  # noqa: FBT001  a parameter
    patterns: tuple[str, ...],
    shims: tuple[str, ...],
) -> None:
    made = agent(*shims, enabled=enabled, patterns=patterns)
    assert is_open(made) is any(rule.enabled for rule in rules(made))
