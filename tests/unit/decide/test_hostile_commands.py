"""Commands that look like `git push` and are something else: each stays in the sandbox. Honest ones may leave."""

from __future__ import annotations

import pytest

from crabpot.decide.elevation import Decision, decide
from crabpot.settings import AgentSettings, Elevated, Sandbox, Tools

AGENT = AgentSettings(id="main", tools=Tools(elevated=Elevated(enabled=True, patterns=("git push *", "brew *"))))
SHIMMED = AgentSettings(id="main", sandbox=Sandbox(host_commands=("git",)))

HOSTILE = {
    "chain": "git push; id",
    "chain without a space": "git push;id",
    "chain in front": "id; git push",
    "and": "git push && id",
    "or": "git push || id",
    "background": "git push & id",
    "background at the end": "git push &",
    "pipe": "git push | sh",
    "pipe in front": "id | git push",
    "pipe with errors": "git push |& sh",
    "command substitution": "git push $(id)",
    "quoted command substitution": 'git push "$(id)"',
    "backticks": "git push `id`",
    "quoted backticks": 'git push "`id`"',
    "process substitution": "git push <(id)",
    "output process substitution": "git push >(sh)",
    "arithmetic": "git push $((1))",
    "variable": "git push $IFS",
    "braced variable": "git push ${PATH}",
    "variable as separator": "git${IFS}push",
    "ansi-c quoting": "git push $'a\\nb'",
    "locale quoting": 'git push $"a"',
    "output to a file": "git push > /etc/passwd",
    "appending": "git push >> ~/.bashrc",
    "input from a file": "git push < /etc/shadow",
    "descriptor": "git push 2>&1",
    "clobber": "git push >| x",
    "read and write": "git push <> x",
    "heredoc": "git push <<EOF\nid\nEOF",
    "heredoc on one line": "git push << EOF",
    "here-string": "git push <<< id",
    "subshell": "(git push)",
    "group": "{ git push; }",
    "function": "git() { id; }",
    "next line": "git push\nid",
    "line in front": "id\ngit push",
    "line continuation": "git push \\\n; id",
    "continuation inside the name": "gi\\\nt push",
    "carriage return": "git push\r\nid",
    "carriage return that overwrites what is shown": "git push evil\rgit push main",
    "vertical tab": "git push\x0bid",
    "form feed": "git push\x0cid",
    "tab": "git\tpush",
    "tab inside": "git push\torigin",
    "nul": "git push\0; id",
    "escape sequence": "git push \x1b[1A\x1b[2K",
    "delete": "git push \x7f",
    "c1 control": "git push \x9b2J",
    "next line control": "git push\x85id",
    "comment": "git push # origin",
    "comment in front": "# git push",
    "home": "git push ~",
    "home of another": "git push ~root/x",
    "home after a colon": "git push host:~/x",
    "glob": "git push *",
    "glob of one": "git push ?",
    "glob of a set": "git push [a-z]",
    "extended glob": "git push @(a|b)",
    "braces": "git push {a,b}",
    "brace range": "git push {1..9}",
    "brace around the name": "{git,push}",
    "assignment": "GIT_SSH_COMMAND=id git push",
    "assignment to the path": "PATH=/tmp:$PATH git push",
    "empty assignment": "A= git push",
    "quoted assignment": "A='b c' git push",
    "appending assignment": "A+=b git push",
    "array assignment": "A[0]=b git push",
    "loader assignment": "LD_PRELOAD=/tmp/x.so git push",
    "env": "env git push",
    "env with a split string": "env -S 'git push'",
    "env with a variable": "env GIT_SSH=id git push",
    "sh -c": "sh -c 'git push'",
    "bash -c": "bash -c 'git push; id'",
    "eval": "eval git push",
    "exec": "exec git push",
    "command": "command git push",
    "builtin": "builtin git push",
    "nohup": "nohup git push",
    "timeout": "timeout 5 git push",
    "xargs": "xargs git push",
    "sudo": "sudo git push",
    "nice": "nice git push",
    "busybox": "busybox git push",
    "dot": ". git push",
    "source": "source git push",
    "time": "time git push",
    "negation": "! git push",
    "coprocess": "coproc git push",
    "if": "if git push; then id; fi",
    "while": "while git push; do id; done",
    "for": "for git in push; do id; done",
    "case": "case git in push) id;; esac",
    "absolute path": "/usr/bin/git push",
    "planted path": "./git push",
    "planted path above": "../git push",
    "path in the workspace": "/workspace/git push",
    "path of itself": "/proc/self/root/usr/bin/git push",
    "other case": "Git push",
    "upper case": "GIT PUSH",
    "other case of the argument": "git Push",
    "quoted name": "'git' push",
    "double-quoted name": '"git" push',
    "half-quoted name": "g'i't push",
    "escaped name": "\\git push",
    "escaped letter": "gi\\t push",
    "empty quotes before the name": "''git push",
    "empty quotes after the name": "git'' push",
    "both words in one": "'git push'",
    "escaped space": "git\\ push",
    "cyrillic letter": "g\u0456t push",
    "full-width letters": "\uff47\uff49\uff54 push",
    "dotless i": "g\u0131t push",
    "mathematical letters": "\U0001d420\U0001d422\U0001d42d push",
    "combining mark": "gi\u0307t push",
    "long s in the argument": "git pu\u017fh",
    "zero-width space": "git\u200b push",
    "zero-width space inside": "gi\u200bt push",
    "zero-width joiner": "git\u200d push",
    "word joiner": "git push\u2060",
    "soft hyphen": "git\u00ad push",
    "byte order mark": "\ufeffgit push",
    "variation selector": "git\ufe0f push",
    "tag characters": "git push \U000e0041",
    "hangul filler": "git push \u3164",
    "braille blank": "git push \u2800",
    "no-break space": "git\u00a0push",
    "em space": "git\u2003push",
    "ideographic space": "git\u3000push",
    "line separator": "git push\u2028id",
    "paragraph separator": "git push\u2029id",
    "right-to-left override": "git push \u202elive",
    "isolate": "git push \u2066a\u2069",
    "right-to-left mark": "git push \u200f",
    "arabic letter mark": "git push \u061c",
    "private use": "git push \ue000",
    "bytes that are no text": "git push \udcff",
    "unclosed quote": "git push 'a",
    "unclosed double quote": 'git push "a',
    "trailing backslash": "git push \\",
    "option before the command": "git -c core.sshCommand=id push",
    "other folder": "git -C /etc push",
    "hyphenated command": "git-push",
    "longer command": "git pushy",
    "longer name": "gitt push",
    "history": "!git push",
    "history of the last": "!! push",
    "job": "%1 git push",
    "alias": "alias git=id",
    "empty": "",
    "only spaces": "   ",
    "only the name": "git",
    "quoted empty between": "git '' push",
}

HONEST = {
    "git push": ["git", "push"],
    "git push origin main": ["git", "push", "origin", "main"],
    "  git  push  origin ": ["git", "push", "origin"],
    "git 'push' \"origin\"": ["git", "push", "origin"],
    "git push origin 'feature/a b'": ["git", "push", "origin", "feature/a b"],
    "git push --force-with-lease origin HEAD:refs/heads/x": [
        "git",
        "push",
        "--force-with-lease",
        "origin",
        "HEAD:refs/heads/x",
    ],
    "git push -o ci.variable='A=$B; *'": ["git", "push", "-o", "ci.variable=A=$B; *"],
    "git push origin \\#1": ["git", "push", "origin", "#1"],
    "brew install jq": ["brew", "install", "jq"],
    "brew": ["brew"],
    "git push origin r\u00e9sum\u00e9": ["git", "push", "origin", "r\u00e9sum\u00e9"],
}


def test_the_table_is_long_enough_to_mean_something() -> None:
    assert len(HOSTILE) >= 60
    assert len(set(HOSTILE.values())) == len(HOSTILE)


@pytest.mark.parametrize("trick", HOSTILE)
def test_a_command_that_only_looks_like_git_push_stays_in(trick: str) -> None:
    verdict = decide({"command": HOSTILE[trick]}, AGENT, sender=None)
    assert verdict.answer.decision is Decision.SANDBOXED
    assert verdict.because


# What `git *` takes by its own letter: other words after a plain `git`.
PLAINLY_GIT = {
    *("other case of the argument", "long s in the argument", "option before the command", "other folder"),
    *("longer command", "only the name", "quoted empty between"),
}


@pytest.mark.parametrize("trick", [trick for trick in HOSTILE if trick not in PLAINLY_GIT])
def test_no_trick_gets_out_by_a_host_command_either(trick: str) -> None:
    assert decide({"command": HOSTILE[trick]}, SHIMMED, sender=None).answer.decision is Decision.SANDBOXED


@pytest.mark.parametrize("trick", sorted(PLAINLY_GIT))
def test_what_is_plainly_the_host_command_needs_a_persons_word(trick: str) -> None:
    assert decide({"command": HOSTILE[trick]}, SHIMMED, sender=None).answer.decision is Decision.NEEDS_APPROVAL


@pytest.mark.parametrize("command", HONEST)
def test_an_honest_command_may_leave_and_its_words_are_those_that_run(command: str) -> None:
    verdict = decide({"command": command}, AGENT, sender=None)
    assert verdict.answer.decision is Decision.NEEDS_APPROVAL
    assert verdict.answer.argv == tuple(HONEST[command])
