"""A configuration that does not load: one clear message, exit code 2, no traceback, and nothing runs on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = [
    (
        "{agents: {defaults: {\n sandbox: {moed: 'all'}}}}",
        ':2: agents.defaults.sandbox.moed: unknown key; did you mean "mode"?',
    ),
    ("{tools: {\n deny: 'exec'}}", ":2: tools.deny: must be a list, not a string"),
    ("{tools: {profile: 'codng'}}", ':1: tools.profile: unknown profile "codng"; did you mean "coding"?'),
    ("{tools: {allow: []}}", ':1: tools.allow: an empty allow reads as both "nothing" and "anything"'),
    ("{tools: {deny: ['exce']}}", ':1: tools.deny[0]: unknown tool "exce"; did you mean "exec"?'),
    ("{\n tools: {},\n tools: {}}", ":3: tools: duplicate key 'tools'; keep one"),
    ("{tools: {profile: coding}}", ":1: tools.profile: expected a value, found coding; a string needs quotes"),
    (
        "{agents: {defaults: {sandbox: {binds: ['/etc:/x']}}}}",
        ':1: agents.defaults.sandbox.binds[0]: "/etc" is refused: it is a system folder',
    ),
    ("{sandbox: {enabled: true}, agents: {defaults: {sandbox: {mode: 'off'}}}}", "disagrees with sandbox.enabled"),
    ("", ":1: expected a value, found end of the text"),
    ("[" * 200_000, ":1: nested deeper than 64 levels"),
    ("{a:" * 200_000, ":1: nested deeper than 64 levels"),
]


@pytest.mark.parametrize(("text", "said"), TEXTS)
def test_a_text_that_does_not_load(text: str, said: str, crabpot: Any) -> None:
    file = crabpot.configure(text)
    ended = crabpot("explain", "--json")
    assert ended.code == 2
    assert ended.said().startswith(f"crabpot: {file}")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1


def test_check_and_config_refuse_it_with_the_same_words(crabpot: Any) -> None:
    crabpot.configure("{tools: {profile: 'codng'}}")
    messages = {crabpot(*command).said() for command in (("check",), ("config", "get", "tools.profile"), ("explain",))}
    assert len(messages) == 1


def _garbage(file: Path) -> None:
    file.write_bytes(bytes(range(256)) * 16)


def _large(file: Path) -> None:
    file.write_bytes(b"{" + b" " * (10 * 1024 * 1024) + b"}")


def _folder(file: Path) -> None:
    file.mkdir()


def _fifo(file: Path) -> None:
    os.mkfifo(file)


def _dangling(file: Path) -> None:
    file.symlink_to("/nowhere/at/all")


def _looping(file: Path) -> None:
    file.symlink_to(file.name)


def _endless(file: Path) -> None:
    file.symlink_to("/dev/zero")


def _unreadable(file: Path) -> None:
    file.write_text("{}")
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
    file.chmod(0o000)


FILES = [
    (_garbage, "is not UTF-8 text (byte 128)"),
    (_large, "is larger than 1 MiB"),
    (_folder, "cannot be read: Is a directory"),
    (_fifo, "is not a regular file"),
    (_dangling, "cannot be read: No such file or directory"),
    (_looping, "cannot be read: Too many levels of symbolic links"),
    (_endless, "is not a regular file"),
    (_unreadable, "cannot be read: Permission denied"),
]


@pytest.mark.parametrize(("make", "said"), FILES)
def test_a_file_that_cannot_be_read(make: Any, said: str, crabpot: Any) -> None:
    file = crabpot.usual_file
    file.parent.mkdir(parents=True)
    make(file)
    ended = crabpot("explain", as_anybody=True)
    assert ended.code == 2
    assert ended.said() == f"crabpot: {file}: {said}" + ended.err.partition(said)[2]
    assert len(ended.err.splitlines()) == 1


def test_a_folder_that_may_not_be_searched_is_no_reason_to_run_on_the_defaults(crabpot: Any) -> None:
    folder = crabpot.configure("{tools: {deny: ['exec']}}").parent
    if os.geteuid() == 0:
        os.chown(folder, 12345, 12345)
    folder.chmod(0o000)
    ended = crabpot("explain", as_anybody=True)
    folder.chmod(0o700)
    assert ended.code == 2
    assert "cannot be read: Permission denied" in ended.said()


@pytest.mark.parametrize("name", ["missing.json5", "", "~/nowhere/c.json5"])
def test_a_file_that_is_named_and_not_there(name: str, crabpot: Any) -> None:
    crabpot.configure("{}")
    ended = crabpot("explain", "--config", name)
    assert ended.code == 2
    assert "cannot be read: " in ended.said()


def test_several_problems_are_told_at_once_each_on_its_line(crabpot: Any) -> None:
    file = crabpot.configure("{\n toolz: 1,\n tools: {\n  deny: 5,\n  elevated: {enabled: 'x'}}}")
    assert crabpot("check").said().splitlines() == [
        f'crabpot: {file}:2: toolz: unknown key; did you mean "tools"?',
        f"crabpot: {file}:4: tools.deny: must be a list, not a number",
        f"crabpot: {file}:5: tools.elevated.enabled: must be true or false, not a string",
    ]


def test_a_message_cannot_move_the_cursor(crabpot: Any) -> None:
    crabpot.configure('{"a\\u001b[2J\\u202e": 1}')
    assert "\x1b" not in crabpot("check").said()


def test_a_configuration_inside_the_workspace_is_refused(crabpot: Any) -> None:
    (crabpot.home / "agent").mkdir()
    file = crabpot.home / "agent/crabpot.json5"
    file.write_text("{agents: {defaults: {sandbox: {mode: 'off'}}}}")
    for ended in (crabpot("explain", "--config", str(file)), crabpot("explain", CRABPOT_CONFIG=str(file))):
        assert ended.code == 2
        assert "is inside the workspace" in ended.said()
    (crabpot.home / "link.json5").symlink_to(file)
    assert "is inside the workspace" in crabpot("explain", "--config", "~/link.json5").said()


def test_one_in_the_working_directory_is_never_read_and_the_flag_is_named(crabpot: Any, tmp_path: Path) -> None:
    cloned = tmp_path / "cloned"
    cloned.mkdir()
    planted = cloned / "crabpot.json5"
    planted.write_text("{agents: {defaults: {sandbox: {mode: 'off'}}}}")
    ended = crabpot("explain", "--json", cwd=cloned)
    assert ended.code == 0
    assert ended.json["placement"]["where"] == "sandbox"
    assert ended.err == (
        f"crabpot: note: {planted} is not read: an agent may have put it there. If it is yours: --config {planted}\n"
    )
    planted.write_text("not even json5")
    assert crabpot("check", cwd=cloned).code == 0
    planted.write_text("{agents: {defaults: {sandbox: {mode: 'off'}}}}")
    chosen = crabpot("explain", "--json", "--config", "crabpot.json5", cwd=cloned)
    assert (chosen.json["placement"]["where"], chosen.err) == ("host", "")
