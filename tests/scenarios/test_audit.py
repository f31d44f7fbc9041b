"""`crabpot audit`: what happened, and whether the log is whole."""

from __future__ import annotations

import hashlib
import json
import sqlite3

import pytest


@pytest.fixture
def used(placed):
    placed("exec", "--", "echo one")
    placed("exec", "--", "exit 3")
    placed("call", "read", "--args", '{"path": "missing"}')
    return placed


def test_the_last_records_are_lines_that_say_what_happened(used):
    ended = used("audit", "tail")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert len(lines) == 6
    assert [line.split()[2] for line in lines] == ["intent", "call"] * 3
    assert "host" in lines[1]
    assert " ok " in lines[1]
    assert "exec echo one" in lines[1]
    assert "[agent:main:main; agents.defaults.sandbox.mode]" in lines[1]
    assert "exit 3" in lines[3]
    assert "not_found" in lines[5]
    assert len(used("audit", "tail", "-n", "2").out.splitlines()) == 2


def test_what_the_configuration_opened_is_warned_about(crabpot, open_folder):
    data = open_folder / "data"
    data.mkdir()
    crabpot.configure(
        f"{{agents: {{defaults: {{sandbox: {{network: 'host', binds: ['{data}:/data:rw']}}}}}},"
        " tools: {elevated: {enabled: true, requireApproval: false, patterns: ['uname']}}}"
    )
    assert crabpot("exec", "--", "uname").code == 0
    opened, intent, _ = crabpot("audit", "tail").out.splitlines()
    assert opened.endswith(f"  ! the sandbox has the host's network  ! the agent may change {data}")
    assert intent.endswith("  ! nobody was asked: requireApproval is false")


def test_records_are_json_for_programs(used):
    rows = [json.loads(line) for line in used("audit", "tail", "--json").out.splitlines()]
    assert [row["number"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[1]["args"] == {"command": "echo one"}
    one = used("audit", "show", "4").json
    assert (one["kind"], one["exit_code"], one["number"]) == ("call", 3, 4)
    ended = used("audit", "show", "99")
    assert ended.code == 1
    assert "no record 99" in ended.said()


def test_an_export_is_json_lines_whose_chain_anyone_can_follow(used):
    used("exec", "--session", "agent:main:other", "--", "true")
    lines = used("audit", "export").out.splitlines()
    before = "0" * 64
    for number, line in enumerate(lines, start=1):
        record = json.loads(line)
        assert record.pop("number") == number
        told = record.pop("hash")
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        before = hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()
        assert told == before
    assert len(lines) == 8
    assert [json.loads(line)["number"] for line in used("audit", "export", "--after", "6").out.splitlines()] == [7, 8]
    only = used("audit", "export", "--session", "agent:main:other").out.splitlines()
    assert [json.loads(line)["number"] for line in only] == [7, 8]
    assert len(used("audit", "tail", "--session", "agent:main:other").out.splitlines()) == 2


def test_a_log_that_nobody_touched_holds_and_one_that_was_changed_does_not(used):
    ended = used("audit", "verify")
    assert (ended.code, ended.out) == (0, "6 records: the chain holds\n")
    log = sqlite3.connect(used.state / "audit.db")
    log.execute("UPDATE records SET text = replace(text, 'echo one', 'echo two')")
    log.commit()
    log.close()
    ended = used("audit", "verify")
    assert ended.code == 1
    assert "record 1 was changed" in ended.out


def test_a_log_that_was_never_written_is_empty_and_holds(unexamined):
    ended = unexamined("audit", "verify")
    assert (ended.code, ended.out) == (0, "0 records: the chain holds\n")
    ended = unexamined("audit", "tail")
    assert (ended.code, ended.out) == (0, "")
    assert "empty" in ended.err
    assert not unexamined.state.exists()


def test_a_log_that_is_none_is_told(crabpot):
    crabpot.state.mkdir(parents=True, exist_ok=True)
    (crabpot.state / "audit.db").write_text("x" * 10_000)
    for action in (["tail"], ["verify"], ["show", "1"]):
        ended = crabpot("audit", *action)
        assert ended.code == 1
        assert "cannot be read" in ended.said()


def test_what_an_agent_wrote_cannot_move_the_cursor_of_who_reads_it(placed):
    placed("exec", "--session", "agent:main:\x1b[2J", "--", "true \x1b[31m \u202e")
    ended = placed("audit", "tail")
    assert "\x1b" not in ended.out
    assert "\u202e" not in ended.out
    assert "<" in ended.out


def test_what_a_command_was_given_to_read_is_not_in_the_log(placed):
    placed("exec", "--", "cat", stdin=b"hunter2-hunter2")
    for path in placed.state.iterdir():
        if path.is_file():
            assert b"hunter2" not in path.read_bytes()


def test_a_log_that_cannot_be_written_is_told_and_nothing_runs_on_the_host(placed):
    placed.state.mkdir(parents=True, exist_ok=True)
    (placed.state / "audit.db").write_text("x" * 10_000)
    ended = placed("exec", "--", "touch ran")
    assert ended.code == 125
    assert "audit log" in ended.err
    assert not (placed.workspace / "ran").exists()
