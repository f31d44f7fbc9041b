"""Answers as a person reads them: the seed's sample, in colour where there is any, and nothing that moves the cursor."""

from __future__ import annotations

import asyncio
import io
import re
from typing import TYPE_CHECKING

import pytest

from crabpot.backends.registry import Registry
from crabpot.decide.check import Finding
from crabpot.doors.cli import show
from crabpot.explain import Explainer

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import Settings
    from crabpot.spec.binds import Surroundings

GROUP = "agent:main:telegram:group:-100123"
SAMPLE = """{
  agents: { defaults: { sandbox: { mode: "non-main" } } },
  tools: {
    profile: "coding", deny: ["group:automation"], allow: ["web_search", "web_fetch", "image"],
    elevated: { enabled: true, patterns: ["brew *", "git push *"] },
  },
}"""


@pytest.fixture
def lines(load_text: Callable[..., Settings], around: Surroundings) -> Callable[..., list[str]]:
    def shown(text: str, *keys: str, command: str | None = None, colour: bool = False) -> list[str]:
        explainer = Explainer(settings=load_text(text), around=around, registry=Registry({}))
        answers = [asyncio.run(explainer.explain(key, command)) for key in keys]
        return list(show.explanation(answers, explainer, colour=colour))

    return shown


def test_the_plain_form_follows_the_sample_of_the_document(lines: Callable[..., list[str]]) -> None:
    text = "\n".join(lines(SAMPLE, "agent:main:main", GROUP))
    expected = [
        r"^Sandbox mode:     non-main +because agents\.defaults\.sandbox\.mode$",
        r"^Sandbox scope:    session +because default$",
        r"^Workspace access: none +because default$",
        r'^Session "agent:main:main" → HOST \(main session exempted\) because agents\.defaults\.sandbox\.mode$',
        rf'^Session "{GROUP}" → SANDBOX ',
        r"^Elevated patterns:$",
        r"^  brew \*     → host \(with approval\)$",
        r"^  git push \* → host \(with approval\)$",
        r"^Tool policy:$",
        r"^  Profile: coding +because tools\.profile$",
        r"^  Denied:$",
        r'^    cron, gateway, sessions_spawn, sessions_send +because tools\.deny\[0\] "group:automation"$',
        r"^  Effective tools: read, write, edit, .*exec, .*web_search, image$",
    ]
    at = 0
    for pattern in expected:
        found = re.compile(pattern, re.MULTILINE).search(text, at)
        assert found, f"{pattern} is missing after:\n{text[:at]}\nin:\n{text}"
        at = found.end()


def test_every_line_that_a_person_might_ask_about_says_because(lines: Callable[..., list[str]]) -> None:
    shown = lines(SAMPLE, GROUP, command="git push")
    for start in ("Sandbox mode", "Sandbox scope", "Workspace access", "Network", "Backend", "Session", "  Profile"):
        assert [line for line in shown if line.startswith(start) and " because " in line], start


def test_a_command_is_shown_by_its_words_with_where_and_why(lines: Callable[..., list[str]]) -> None:
    text = "\n".join(lines(SAMPLE, GROUP, command="git push 'a b'"))
    assert (
        "Command 'git' 'push' 'a b' → host (with approval)\n    because matches the pattern \"git push *\" (tools.elevated.patterns[1])"
        in text
    )
    text = "\n".join(lines(SAMPLE, GROUP, command="git push; id"))
    assert "Command (not one simple command) → sandbox\n    because not one simple command" in text
    text = "\n".join(lines("{}", GROUP, command="git push"))
    assert "Command 'git' 'push' → sandbox\n    because no elevated pattern is configured" in text


def test_patterns_that_cannot_be_reached_and_those_that_nobody_is_asked_about_say_so(
    lines: Callable[..., list[str]],
) -> None:
    assert "  ls → unreachable" in lines("{tools: {elevated: {patterns: ['ls']}}}", GROUP)
    unasked = "{tools: {elevated: {enabled: true, patterns: ['ls'], requireApproval: false}}}"
    assert "  ls → host (WITHOUT approval)" in lines(unasked, GROUP)
    assert "  none" in lines("{}", GROUP)


def test_several_agents_are_shown_apart(lines: Callable[..., list[str]]) -> None:
    shown = lines("{agents: {entries: {ops: {sandbox: {mode: 'off'}}}}}", GROUP, "agent:ops:x")
    assert [line for line in shown if line.startswith("Agent ")] == ["Agent main", "Agent ops"]


def test_tools_are_shown_apart_where_host_and_sandbox_differ(lines: Callable[..., list[str]]) -> None:
    text = "{agents: {defaults: {sandbox: {mode: 'non-main'}}}, tools: {sandbox: {deny: ['exec']}}}"
    shown = lines(text, "main", GROUP)
    assert [line for line in shown if line.startswith("Tool policy")] == [
        "Tool policy (host):",
        "Tool policy (sandbox):",
    ]


def test_warnings_stand_at_the_end(lines: Callable[..., list[str]]) -> None:
    shown = lines("{sandbox: {network: 'host'}}", GROUP)
    assert shown[-2] == "Warnings:"
    assert shown[-1].startswith("  ! sandbox.network: ")


def test_without_colour_there_is_no_escape_and_with_it_there_is(lines: Callable[..., list[str]]) -> None:
    plain, coloured = lines(SAMPLE, GROUP), lines(SAMPLE, GROUP, colour=True)
    assert "\x1b" not in "".join(plain)
    assert "\x1b[32mSANDBOX\x1b[0m" in "".join(coloured)
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == plain


def test_nothing_from_outside_moves_the_cursor(lines: Callable[..., list[str]]) -> None:
    hostile = "agent:main:\x1b[2J\r\n\u202e\x9b\udcff"
    shown = lines(SAMPLE, hostile, command="git push '\x1b[1A'", colour=True)
    cleaned = [re.sub(r"\x1b\[\d+m", "", line) for line in shown]
    assert all(line.isprintable() for line in cleaned)
    assert any("<U+001B>[2J<U+000D><U+000A><U+202E><U+009B><U+DCFF>" in line for line in cleaned)


def test_findings_are_counted_and_each_has_its_fix() -> None:
    found = [
        Finding(severity="error", path="a", message="m\x1b", fix="f"),
        Finding(severity="warning", path="b", message="n", fix="g"),
    ]
    assert list(show.findings(found, "F", colour=False)) == [
        "error: a: m<U+001B>",
        "  fix: f",
        "warning: b: n",
        "  fix: g",
        "F: 1 error, 1 warning",
    ]
    assert list(show.findings([], None, colour=False)) == ["the defaults (no configuration file): 0 errors, 0 warnings"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_is_coloured_unless_the_person_said_not_to(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, colour: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert show.wants_colour(_Terminal()) is colour
    assert not show.wants_colour(io.StringIO())
    assert not show.wants_colour(None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("agent:asks:m\u0430in", "agent:asks:m<U+0430>in"),
        ("\uff4dain \u202eniam", "<U+FF4D>ain <U+202E>niam"),
        ("\u0441\u043e\u0441\u043e", "<U+0441><U+043E><U+0441><U+043E>"),
        (
            "\u041f\u0440\u0438\u0432\u0435\u0442 m\u00e4in \u2192 \u2026 \u2713",
            "\u041f\u0440\u0438\u0432\u0435\u0442 m\u00e4in \u2192 \u2026 \u2713",
        ),
    ],
)
def test_a_letter_that_imitates_another_is_shown_by_its_number_and_an_honest_word_as_it_is(
    text: str, shown: str
) -> None:
    assert show.visible(text) == shown
