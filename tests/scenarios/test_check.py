"""`check`: what a configuration gives away, each with its fix, and the exit codes that a pipeline relies on."""

from __future__ import annotations

from typing import Any

import pytest

WARNS = "{agents: {defaults: {sandbox: {network: 'host'}}}}"
ERRS = "{tools: {elevated: {enabled: true, patterns: ['/usr/bin/git *', 'sh *']}}}"


@pytest.mark.parametrize(
    ("text", "arguments", "code", "summary"),
    [
        ("{}", (), 0, "0 errors, 0 warnings"),
        ("{}", ("--strict",), 0, "0 errors, 0 warnings"),
        (WARNS, (), 0, "0 errors, 1 warning"),
        (WARNS, ("--strict",), 1, "0 errors, 1 warning"),
        (ERRS, (), 2, "1 error, 1 warning"),
        (ERRS, ("--strict",), 2, "1 error, 1 warning"),
    ],
)
def test_the_exit_code_is_clean_strict_or_error(
    text: str, arguments: tuple[str, ...], code: int, summary: str, crabpot: Any
) -> None:
    file = crabpot.configure(text)
    file.chmod(0o600)
    ended = crabpot("check", *arguments)
    assert (ended.code, ended.err) == (code, "")
    assert ended.out.splitlines()[-1] == f"{file}: {summary}"


def test_a_configuration_that_does_not_load_is_an_error(crabpot: Any) -> None:
    crabpot.configure("{")
    assert crabpot("check").code == crabpot("check", "--strict").code == 2


def test_without_a_file_the_defaults_are_checked_and_clean(crabpot: Any) -> None:
    ended = crabpot("check", "--strict")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "the defaults (no configuration file): 0 errors, 0 warnings")


def test_every_finding_has_its_place_and_its_fix(crabpot: Any) -> None:
    workspace = crabpot.home / "agent"
    (workspace / ".git/hooks").mkdir(parents=True)
    file = crabpot.configure(
        """{
          agents: { defaults: { sandbox: { network: "host", workspace: "rw", binds: ["/mnt:/mnt:rw"] } } },
          tools: {
            deny: ["write", "web_fetch"],
            elevated: { enabled: true, patterns: ["docker *", "a/b", "env *"], requireApproval: false },
          },
        }"""
    )
    file.chmod(0o666)
    ended = crabpot("check")
    lines = ended.out.splitlines()[:-1]
    found, fixes = lines[::2], lines[1::2]
    assert ended.code == 2
    assert all(line.startswith("  fix: ") and len(line) > 10 for line in fixes)
    for words in (
        f"warning: {file}: others may write this file",
        'warning: tools.elevated.patterns[0]: "docker *" gives the host away',
        'error: tools.elevated.patterns[1]: the pattern "a/b" matches nothing',
        'warning: tools.elevated.patterns[2]: "env *" runs more than it says',
        "warning: tools.elevated.requireApproval: matching commands run on the host without approval",
        'warning: tools.deny[0] "write": denies write, but exec is allowed',
        'warning: tools.deny[1] "web_fetch": denies web_fetch, but exec is allowed and the sandbox has a network',
        "warning: agents.defaults.sandbox.network: the sandbox has the host's network",
        "warning: agents.defaults.sandbox.binds[0]: /mnt is a whole top-level folder",
        "warning: agents.defaults.sandbox.binds[0]: the agent may change /mnt",
        f"warning: agents.defaults.sandbox.workspace: the agent may change {workspace}, which holds files that the host executes: .git/hooks",
    ):
        assert [line for line in found if line.startswith(words)], f"{words!r} is missing in:\n{ended.out}"


def test_a_token_that_reaches_the_host_is_named_with_what_comes_of_it(crabpot: Any) -> None:
    crabpot.configure("{agents: {entries: {ops: {sandbox: {mode: 'non-main'}}, dev: {sandbox: {mode: 'off'}}}}}")
    made = (
        ("bot", "agent:ops:*"),
        ("trusted", "agent:ops:main", "--allow-host"),
        ("wide", "*"),
        ("narrow", "agent:ops:telegram:*"),
        ("away", "agent:main:*"),
    )
    for name, session, *more in made:
        assert crabpot("tokens", "add", name, "--session", session, *more).code == 0
    assert crabpot("tokens", "add", "person", "--role", "operator").code == 0
    said = crabpot("check", "--strict")
    assert said.code == 1
    lines = [line for line in said.out.splitlines() if "tokens " in line]
    assert [line.split("tokens ")[1].split(":")[0] for line in lines] == ["bot", "trusted", "wide", "wide"]
    assert "the main session of the agent ops" in lines[0]
    assert "such calls are denied" in lines[0]
    assert "--allow-host permits" in lines[1]
    assert "every session of the agent dev" in lines[3]
    assert "may run on the host" in crabpot("tokens", "list").out
