"""What Claude Code hands its shell prefix is taken apart to the letter, or left as it is."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crabpot.decide.commands import NotSimple, parse
from crabpot.doors.thin.claude import Handed, report, unwrapped

if TYPE_CHECKING:
    from pathlib import Path

# As Claude Code 2.1.197 was seen to write it.
BEFORE = (
    "source /home/u/.claude/shell-snapshots/snapshot-bash-1794909134822-vexes4.sh 2>/dev/null || true"
    " && { shopt -u extglob || setopt NO_EXTENDED_GLOB NO_BARE_GLOB_QUAL; } >/dev/null 2>&1 || true && "
)
AFTER = " && pwd -P >| /tmp/claude-ee08-cwd"


def wrapped(command: str, *, given_input: str = " < /dev/null") -> str:
    return f"{BEFORE}eval {shlex.quote(command)}{given_input}{AFTER}"


@given(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8")))
@example("git push origin main")
@example("echo it's; cd sub && ls > x")
@example(f"true{AFTER}")
@example("' && pwd -P >| /tmp/claude-1-cwd")
@example("cat <<'E'\nhi\nE")
def test_whatever_the_command_is_it_is_found_again(command: str) -> None:
    assert unwrapped(wrapped(command)) == (command, True, "/tmp/claude-ee08-cwd")
    assert unwrapped(wrapped(command, given_input="")) == (command, False, "/tmp/claude-ee08-cwd")


@pytest.mark.parametrize("command", ["git push origin main", "git commit -m 'a; b (c) $d'", 'echo "a b"', "git"])
def test_one_simple_command_reaches_the_gateway_as_the_model_wrote_it(command: str) -> None:
    assert Handed(wrapped(command)).command == command
    assert Handed(command).command == command


HOSTILE = [
    wrapped("git push origin main; id"),
    wrapped("git push origin main\nid"),
    wrapped("git push $(id)"),
    wrapped("git push origin main") + "; id",
    wrapped("git push origin main") + "\nid",
    f"id; {wrapped('git push origin main')}",
    f"{BEFORE}id && eval 'git push origin main' < /dev/null{AFTER}",
    f"{BEFORE}eval 'git push origin main' id < /dev/null{AFTER}",
    f"{BEFORE}eval 'git push origin main' < /dev/null | sh{AFTER}",
    f"{BEFORE}eval 'git push origin main'$(id) < /dev/null{AFTER}",
    f'{BEFORE}eval "git push $(id)" < /dev/null{AFTER}',
    f'{BEFORE}eval "git push `id`" < /dev/null{AFTER}',
    f"{BEFORE}eval git\\\npush < /dev/null{AFTER}",
    f"{BEFORE}eval git;id < /dev/null{AFTER}",
    f"{BEFORE}eval 'git push origin main' < /etc/shadow{AFTER}",
    f"source $(id) 2>/dev/null || true && eval 'git push origin main'{AFTER}",
    f"source /x 2>/dev/null || id && eval 'git push origin main'{AFTER}",
    "eval 'git push origin main' && pwd -P >| /home/u/.bashrc",
    "eval 'git push origin main' && pwd -P >| claude-1-cwd",
    "eval 'git push origin main' && pwd -P >| /tmp/claude-1-cwd /x",
    "eval 'git push origin main' && pwd -P >| $(id)/claude-1-cwd",
    f"eval 'git push origin main{AFTER}",
    f"eval {AFTER}",
    f"eval{AFTER}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_more_than_one_simple_command(text: str) -> None:
    with pytest.raises(NotSimple):
        parse(Handed(text).command)


@given(st.lists(st.sampled_from([*"'\" \\$`;&|\n", "eval", "git", BEFORE, AFTER, " < /dev/null", "/tmp/claude-1-cwd"])))
def test_what_would_be_elevated_is_all_that_a_shell_would_have_run(parts: list[str]) -> None:
    """Only one word of `eval` is ever taken out, and only if a shell reads it as that very word."""
    text = "".join(parts)
    found = unwrapped(text)
    if found is not None:
        head = text.rpartition(" && pwd -P >| ")[0].rpartition(" || true && ")[2].removesuffix(" < /dev/null")
        assert shlex.split(head) == ["eval", found[0]]


@pytest.mark.parametrize("command", ["cd sub", "cd sub && ls", "(cd sub); pushd x"])
def test_a_command_that_may_change_the_folder_reports_it(command: str) -> None:
    assert Handed(wrapped(command)).report == "/tmp/claude-ee08-cwd"


@pytest.mark.parametrize("command", ["git push origin cd", "git commit -m 'cd; ls'", "ls; pwd"])
def test_no_other_command_reports_a_folder(command: str) -> None:
    handed = Handed(wrapped(command))
    assert handed.report is None
    assert handed.command in (command, f"exec bash -c {shlex.quote(command)};")


def test_what_runs_inside_has_the_commands_own_exit_code_and_bash(tmp_path: Path) -> None:
    def run(command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", Handed(wrapped(command)).command], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        return done.returncode, done.stdout

    assert run("exit 7") == (7, "")
    assert run("false") == (1, "")
    assert run("[[ a == a ]] && echo {1..3} it\\'s") == (0, "1 2 3 it's\n")
    assert run("") == (0, "")


def reported(folder: Path, said: Any, root: str | None) -> str | None:
    file = folder / "claude-1-cwd"
    handed = Handed(f"eval 'cd sub' && pwd -P >| {file}")
    assert handed.report == str(file)
    report(handed, {"data": {"content": said}}, root)
    return file.read_text() if file.exists() else None


def test_a_folder_is_reported_only_where_it_is_below_the_one_that_both_see(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "out").symlink_to("/etc")
    elsewhere = ["/etc", f"{root}/out", f"{root}/sub/../..", f"{root}x", f"{root}/none", f"{root}/sub\0", "", None, 7]
    for said in elsewhere:
        assert reported(tmp_path, said, str(root)) is None, said
    assert reported(tmp_path, f"{root}/sub\n", None) is None
    assert reported(tmp_path, f"{root}/sub\n", str(root)) == f"{root}/sub"
    assert reported(tmp_path, f"{root}\n", str(root)) == f"{root}/sub", "never over what is there"


def test_a_report_follows_no_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    os.symlink(target, tmp_path / "claude-1-cwd")
    assert reported(tmp_path, str(tmp_path), str(tmp_path)) is None
    assert not target.exists()
