"""The scenarios of the documents, asked on the command line: where, which tools, and when a command may leave."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

MAIN, GROUP = "agent:main:main", "agent:main:telegram:group:-100123"
CODING = "read write edit apply_patch grep glob ls exec process browser".split()
ALL = [
    *CODING[:-1],
    *"cron gateway sessions_spawn sessions_send browser web_fetch web_search image tts message".split(),
]


def configuration(document: Path, after: str) -> str:
    """Take the first fenced configuration that follows a heading."""
    text = document.read_text(encoding="utf-8")
    found = re.compile(r"^```json5?\n(.*?)^```", re.MULTILINE | re.DOTALL).search(text, text.index(after))
    assert found
    return found[1]


@pytest.fixture
def explained(crabpot: Any, seeds: Path) -> Any:
    def explain(document: str, heading: str, *command: str) -> list[dict[str, Any]]:
        crabpot.configure(configuration(seeds / f"{document}.md", heading))
        after = ("--", *command) if command else ()
        ended = crabpot("explain", "--session", MAIN, "--session", GROUP, "--json", *after)
        assert (ended.code, ended.err) == (0, "")
        answers: list[dict[str, Any]] = ended.json
        for answer in answers:
            assert_shape(answer)
        assert [answer["session"] for answer in answers] == [MAIN, GROUP]
        return answers

    return explain


GUARDED = {"confine": "guarded", "writes": [], "credentials": []}


def assert_shape(answer: dict[str, Any]) -> None:
    assert list(answer) == ["session", "agent", "placement", "sandbox", "tools", "elevated", "command", "warnings"]
    assert set(answer["placement"]) == {"where", "because", "source"}
    assert set(answer["sandbox"]) == {"mode", "scope", "workspace", "backend", "network", "name", "hash", "clauses"}
    assert set(answer["tools"]) == {"profile", "effective", "denied"}
    assert set(answer["elevated"]) == {"enabled", "patterns", "clauses"}
    for row in answer["elevated"]["patterns"]:
        assert set(row) == {"pattern", "approval", "reachable", "confine", "writes", "credentials"}
    assert answer["command"] is None or set(answer["command"]) == {"argv", "where", "approval", "confine", "because"}
    assert all(isinstance(warning, str) for warning in answer["warnings"])


def test_scenario_one_runs_everything_on_the_host_with_every_tool(explained: Any) -> None:
    for answer in explained("openclaw-sandboxing", "### Scenario 1", "rm -rf /tmp/x; id"):
        assert answer["placement"] == {
            "where": "host",
            "because": "sandbox mode is off",
            "source": "agents.defaults.sandbox.mode",
        }
        assert (answer["sandbox"]["mode"], answer["sandbox"]["name"], answer["sandbox"]["clauses"]) == ("off", None, [])
        assert (answer["tools"]["profile"], sorted(answer["tools"]["effective"])) == ("full", sorted(ALL))
        assert answer["tools"]["denied"] == {}
        assert (answer["command"]["where"], answer["command"]["approval"]) == ("host", False)


def test_scenario_two_exempts_main_and_sandboxes_the_group(explained: Any) -> None:
    main, group = explained("openclaw-sandboxing", "### Scenario 2")
    assert (main["placement"]["where"], main["placement"]["because"]) == ("host", "main session exempted")
    assert (group["placement"]["where"], group["placement"]["because"]) == ("sandbox", "not the main session")
    assert group["sandbox"]["name"] == "crabpot-agent-main-telegram-group--10012-ae91b72a"
    assert re.fullmatch(r"[0-9a-f]{64}", group["sandbox"]["hash"])
    assert (group["sandbox"]["scope"], group["sandbox"]["workspace"], group["sandbox"]["network"]) == (
        "session",
        "none",
        "none",
    )
    for answer in (main, group):
        assert answer["tools"]["effective"] == CODING
        by = {rule for tool, rule in answer["tools"]["denied"].items() if tool in ("cron", "gateway", "sessions_send")}
        assert by == {'tools.deny[0] "group:automation"'}
        assert answer["elevated"] == {"enabled": False, "patterns": [], "clauses": []}


def test_scenario_three_sandboxes_everything_and_its_deny_blocks_its_patterns(explained: Any) -> None:
    for answer in explained("openclaw-sandboxing", "### Scenario 3", "journalctl -u sshd"):
        assert answer["placement"]["where"] == "sandbox"
        assert (answer["sandbox"]["scope"], answer["sandbox"]["workspace"]) == ("session", "ro")
        assert sorted(answer["tools"]["effective"]) == ["message", "web_fetch", "web_search"]
        assert answer["tools"]["denied"]["exec"] == 'tools.deny[0] "group:runtime"'
        assert answer["tools"]["denied"]["read"] == 'tools.deny[1] "group:fs"'
        assert answer["elevated"] == {
            "enabled": True,
            "patterns": [
                {"pattern": "systemctl status *", "approval": True, "reachable": False, **GUARDED},
                {"pattern": "journalctl *", "approval": True, "reachable": False, **GUARDED},
            ],
            "clauses": [],
        }
        assert (answer["command"]["where"], answer["command"]["approval"]) == ("blocked", False)
        assert len([warning for warning in answer["warnings"] if "unreachable" in warning]) == 2


def test_miclaws_example_shares_one_sandbox_and_offers_host_commands_with_approval(explained: Any) -> None:
    main, group = explained("miclaw-sandboxing", "## 5. Host Command Shims", "git status")
    assert main["sandbox"]["name"] == group["sandbox"]["name"] == "crabpot-shared-a4d26868"
    assert main["sandbox"]["hash"] == group["sandbox"]["hash"]
    for answer in (main, group):
        assert answer["placement"] == {
            "where": "sandbox",
            "because": "every session is sandboxed",
            "source": "sandbox.enabled",
        }
        assert (answer["sandbox"]["scope"], answer["sandbox"]["workspace"]) == ("shared", "rw")
        assert set(CODING) <= set(answer["tools"]["effective"])
        assert answer["elevated"]["patterns"] == [
            {"pattern": "git *", "approval": True, "reachable": True, **GUARDED},
            {"pattern": "docker *", "approval": True, "reachable": True, **GUARDED},
        ]
        assert (answer["command"]["argv"], answer["command"]["where"]) == (["git", "status"], "host")
        assert answer["command"]["approval"] is True
        assert "sandbox.host_commands[0]" in answer["command"]["because"]


def test_miclaws_mounts_give_one_folder_read_only(explained: Any) -> None:
    main, _ = explained("miclaw-sandboxing", "## 3. Filesystem Mounts")
    assert main["sandbox"]["workspace"] == "rw"
    assert any("/home/user/ref does not exist" in warning for warning in main["warnings"])


def test_git_push_leaves_with_approval_and_says_by_which_pattern(explained: Any) -> None:
    _, group = explained("openclaw-sandboxing", "## Elevated Mode", "git", "push", "origin", "main")
    assert group["command"] == {
        "argv": ["git", "push", "origin", "main"],
        "where": "host",
        "approval": True,
        "confine": "guarded",
        "because": 'matches the pattern "git push *" (tools.elevated.patterns[1])',
    }


def test_git_push_and_more_stays_in_and_says_why(explained: Any) -> None:
    _, group = explained("openclaw-sandboxing", "## Elevated Mode", "git push; id")
    assert group["command"]["where"] == "sandbox"
    assert group["command"]["argv"] is None
    assert 'not one simple command: ";" is an operator of the shell' in group["command"]["because"]


def test_words_that_hold_an_operator_are_quoted_and_so_are_one_command(explained: Any) -> None:
    _, group = explained("openclaw-sandboxing", "## Elevated Mode", "git", "push", "; id")
    assert (group["command"]["argv"], group["command"]["where"]) == (["git", "push", "; id"], "host")


def test_the_plain_form_reads_like_the_sample(crabpot: Any, seeds: Path) -> None:
    crabpot.configure(
        configuration(seeds / "openclaw-sandboxing.md", "### Scenario 2").replace(
            'deny: ["group:automation"]',
            'deny: ["group:automation"], elevated: { enabled: true, patterns: ["brew *", "git push *"] }',
        )
    )
    ended = crabpot("explain", "--session", MAIN, "--session", GROUP)
    assert (ended.code, ended.err) == (0, "")
    at = 0
    for line in (
        "Sandbox mode:     non-main",
        "Sandbox scope:    session",
        "Workspace access: none",
        f'Session "{MAIN}" → HOST (main session exempted)',
        f'Session "{GROUP}" → SANDBOX',
        "Elevated patterns:",
        "  brew *     → host (with approval)",
        "  git push * → host (with approval)",
        "Tool policy:",
        "  Profile: coding",
        "  Denied:",
        "group:automation",
        "  Effective tools: read, write, edit,",
    ):
        found = ended.out.find(line, at)
        assert found >= at, f"{line!r} is missing in:\n{ended.out}"
        at = found + len(line)
    assert "\x1b" not in ended.out
