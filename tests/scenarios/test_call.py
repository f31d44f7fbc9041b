"""`crabpot call`: one tool, its result as JSON, and an exit code that says which kind of result it was."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

SHAPE = ["id", "success", "stdout", "stderr", "exit_code", "error", "truncated", "data", "place", "duration_ms"]


def args(**given):
    return "--args", json.dumps(given)


def test_a_success_is_0_and_has_the_published_shape(placed):
    ended = placed("call", "write", *args(path="a.txt", content="é\n"))
    assert ended.code == 0
    assert list(ended.json) == SHAPE
    ended = placed("call", "read", *args(path="a.txt"))
    assert (ended.code, ended.json["data"]["content"], ended.json["place"]) == (0, "é\n", "host")


def test_an_unsuccessful_call_is_1(placed):
    ended = placed("call", "read", *args(path="missing"))
    assert (ended.code, ended.json["error"]["code"]) == (1, "not_found")
    ended = placed("call", "exec", *args(command="exit 7"))
    assert (ended.code, ended.json["exit_code"], ended.json["error"]) == (1, 7, None)
    ended = placed("call", "exec", *args(command="sleep 1000", timeout=0.1))
    assert (ended.code, ended.json["error"]["code"]) == (1, "timeout")


def test_a_denied_call_is_126_and_still_a_result(placed):
    placed.configure('{agents: {defaults: {sandbox: {mode: "off"}}}, tools: {deny: ["ls"]}}')
    ended = placed("call", "ls")
    assert (ended.code, ended.json["error"]["code"], ended.json["place"]) == (126, "denied", "none")
    assert placed("call", "no-such-tool").code == 126


OWN_FAILURES = {
    "arguments that are no JSON": ["call", "ls", "--args", "{path: 1}"],
    "arguments that are a list": ["call", "ls", "--args", "[1]"],
    "arguments that are null": ["call", "ls", "--args", "null"],
    "arguments as deep as the stack": ["call", "ls", "--args", "[" * 100_000],
    "a number of many digits": ["call", "ls", "--args", '{"limit": ' + "9" * 5000 + "}"],
    "no tool": ["call"],
    "an empty session": ["call", "ls", "--session", ""],
    "a configuration that is not there": ["call", "ls", "--config", "missing.json5"],
}


def test_a_sandbox_that_fails_is_125_and_its_result_is_printed(placed):
    ended = placed("call", "exec", "--args", json.dumps({"command": "kill -9 $PPID; sleep 2"}))
    assert (ended.code, ended.json["error"]["code"]) == (125, "sandbox_lost")
    placed.configure('{agents: {defaults: {sandbox: {backend: "socket", socket: "/nowhere/runner.sock"}}}}')
    ended = placed("call", "ls")
    assert (ended.code, ended.json["error"]["code"]) == (125, "sandbox_unavailable")


def test_a_process_in_the_background_of_a_single_command_is_told_to_end_with_it(placed):
    started = ("call", "exec", "--args", '{"command": "sleep 1000", "background": true}')
    ended = placed(*started)
    assert (ended.code, "crabpot serve keeps" in ended.err) == (0, True)
    with placed.serving():
        ended = placed(*started)
        assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("name", OWN_FAILURES)
def test_a_failure_of_crabpots_own_is_125(placed, name):
    ended = placed(*OWN_FAILURES[name])
    assert (ended.code, ended.out) == (125, "")
    assert "Traceback" not in ended.err
    assert "crabpot" in ended.err


def test_arguments_may_come_by_standard_input(placed):
    ended = placed("call", "exec", "--args", "-", stdin=json.dumps({"command": "echo é"}).encode())
    assert (ended.code, ended.json["stdout"]) == (0, "é\n")
    ended = placed("call", "exec", "--args", "-", stdin=b"\xff\xfe")
    assert ended.code == 125
    assert "not JSON" in ended.said()


def test_a_large_file_passes_both_ways(placed):
    content = "line é\n" * 100_000
    ended = placed("call", "write", "--args", "-", stdin=json.dumps({"path": "big", "content": content}).encode())
    assert ended.json["data"]["size"] == len(content.encode())
    assert placed("call", "read", *args(path="big")).json["data"]["content"] == content


def test_names_that_no_terminal_can_print_are_escaped(placed):
    (placed.workspace / "bad\x1b[31mname").write_text("")
    ended = placed("call", "ls")
    assert "\x1b" not in ended.out
    assert ended.json["data"]["entries"][0]["name"] == "bad\x1b[31mname"


def test_a_reader_that_leaves_is_no_fault(placed):
    (placed.workspace / "big").write_text("x" * 500_000)
    command = shlex.join([*placed.argv, "call", "read", *args(path="big")])
    done = subprocess.run(
        ["sh", "-c", f"{command} | head -c 10"], env=placed.environ, capture_output=True, timeout=60, check=False
    )
    assert done.stderr == b""


def test_a_session_names_its_own_place(placed):
    placed.configure(
        f'{{agents: {{defaults: {{sandbox: {{mode: "off"}}}}, entries: {{ops: {{workspace: "{placed.home}/ops"}}}}}}}}'
    )
    placed("call", "write", "--session", "agent:ops:main", *args(path="f", content="x"))
    assert (placed.home / "ops" / "f").read_text() == "x"
