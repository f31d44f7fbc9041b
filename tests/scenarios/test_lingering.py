"""The gateway that a first call leaves behind: one, detached, of this caller alone, and gone when idle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.program import Program

OFF = '{agents: {defaults: {sandbox: {mode: "off"}}}}'


@pytest.fixture
def lingering(placed: Program) -> Iterator[Program]:
    """A program whose first call leaves a gateway behind, which ends with the test."""
    made = replace(placed, more={"CRABPOT_LINGER": "10m"})
    yield made
    made("serve", "stop")


def gateway(program: Program) -> int | None:
    """Return the process of the gateway, by what `sandboxes list` shows of it."""
    listed = program("sandboxes", "list").out.splitlines()
    return next((int(line.split()[1]) for line in listed if line.startswith("gateway ")), None)


def test_what_runs_in_the_background_lives_on_between_commands(lingering):
    def call(tool, **args):
        return lingering("call", tool, "--args", json.dumps(args))

    started = call("exec", command="cat; sleep 1000", background=True)
    assert "has ended with this command" not in started.err
    process = started.json["data"]["process"]
    assert call("process", action="write", id=process, data="hello\n").json["success"]
    listed = call("process", action="list").json["data"]["processes"]
    assert [(one["id"], one["running"]) for one in listed] == [(process, True)]
    pid = gateway(lingering)
    assert pid is not None
    ended = lingering("serve", "stop")
    assert (ended.code, ended.out) == (0, f"the gateway {pid} has ended\n")
    assert not (lingering.state / "serve.sock").exists()
    assert lingering("serve", "stop").code == 1


def test_it_shares_no_session_no_terminal_and_no_descriptor_with_its_caller(lingering, tmp_path):
    with (tmp_path / "inherited").open("w") as kept:
        os.set_inheritable(kept.fileno(), True)
        # Reads until the end of the pipe, as a shell's $(…) does: whoever else had it would keep it open.
        done = subprocess.run(
            [*lingering.argv, "exec", "--", "echo out; echo err >&2"],
            cwd=lingering.home,
            env=lingering.environ,
            capture_output=True,
            timeout=120,
            check=True,
            close_fds=False,
        )
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    pid = gateway(lingering)
    assert os.getsid(pid) not in (os.getsid(0), pid)
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        facts = stat.read().rpartition(")")[2].split()
    assert facts[4] == "0", "a terminal"
    open_files = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    assert not [path for path in open_files if "inherited" in path]
    assert [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)] == [
        "/dev/null",
        f"{lingering.state}/gateway.log",
        f"{lingering.state}/gateway.log",
    ]
    assert os.readlink(f"/proc/{pid}/cwd") == "/"


def test_many_first_calls_at_once_start_one(lingering):
    barrier = threading.Barrier(4)

    def first(number):
        barrier.wait()
        return lingering("exec", "--", f"echo {number}; echo $PPID >> runners").out

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(first, range(4))) == ["0\n", "1\n", "2\n", "3\n"]
    assert len(set((lingering.workspace / "runners").read_text().split())) == 1


def test_one_that_was_killed_is_survived_by_the_next_call(lingering):
    assert lingering("exec", "--", "true").code == 0
    before = gateway(lingering)
    os.kill(before, signal.SIGKILL)
    ended = lingering("exec", "--", "echo on")
    assert (ended.code, ended.out, ended.err) == (0, "on\n", "")
    assert gateway(lingering) not in (before, None)


def test_it_ends_when_idle_and_not_while_something_runs_in_the_background(placed):
    short = replace(placed, more={"CRABPOT_LINGER": "1s"})
    started = short("call", "exec", "--args", '{"command": "echo $$ > pid; sleep 1000", "background": true}')
    process = started.json["data"]["process"]
    wait_until(lambda: (short.workspace / "pid").exists() and (short.workspace / "pid").read_text())
    running = (short.workspace / "pid").read_text().strip()
    pid = gateway(short)
    # To ask is to use it, so nobody asks for longer than it may be idle.
    time.sleep(3)
    assert gateway(short) == pid
    assert os.path.exists(f"/proc/{running}")
    short("call", "process", "--args", json.dumps({"action": "kill", "id": process}))
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    assert not (short.state / "serve.sock").exists()


def test_none_is_left_where_the_configuration_says_so(placed):
    environ = {name: value for name, value in placed.environ.items() if name != "CRABPOT_LINGER"}
    placed.configure('{agents: {defaults: {sandbox: {mode: "off"}}}, gateway: {linger: 0}}')
    command = [*placed.argv, "exec", "--", "true"]
    subprocess.run(command, cwd=placed.home, env=environ, check=True, timeout=120)
    assert not (placed.state / "serve.sock").exists()
    placed.configure('{agents: {defaults: {sandbox: {mode: "off"}}}, gateway: {linger: "5m"}}')
    subprocess.run(command, cwd=placed.home, env=environ, check=True, timeout=120)
    assert "ends after 5m" in placed("sandboxes", "list").out
    assert placed("serve", "stop").code == 0


def test_a_changed_configuration_drains_it_and_whoever_is_served_is_served_on(lingering):
    client = lingering.start(
        "exec", "--", "echo $$ > pid; cat; echo done", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    wait_until(lambda: (lingering.workspace / "pid").exists() and (lingering.workspace / "pid").read_text())
    before = gateway(lingering)
    lingering.configure('{agents: {defaults: {sandbox: {mode: "off"}}}, tools: {deny: ["write"]}}')
    assert lingering("call", "write", "--args", '{"path": "x", "content": ""}').code == 126
    assert gateway(lingering) not in (before, None)
    out, _ = client.communicate(b"still here\n", timeout=60)
    assert (client.returncode, out) == (0, b"still here\ndone\n")
    wait_until(lambda: not os.path.exists(f"/proc/{before}"))


def test_another_home_or_place_of_credentials_is_another_gateway(lingering, tmp_path):
    lingering("exec", "--", "true")
    before = gateway(lingering)
    told = lingering("exec", "--", "true", KUBECONFIG=str(tmp_path))
    assert (told.code, told.out) == (0, "")
    assert "started with other variables (KUBECONFIG), so it ends" in told.err
    assert str(tmp_path) not in told.err
    assert gateway(lingering) != before


def test_what_a_tracer_would_read_counts_only_where_a_collector_is_named(lingering):
    lingering("exec", "--", "true")
    before = gateway(lingering)
    assert lingering("exec", "--", "true", OTEL_SERVICE_NAME="other").err == ""
    assert gateway(lingering) == before
    collector = "http://127.0.0.1:9"
    told = lingering("exec", "--", "true", OTEL_EXPORTER_OTLP_ENDPOINT=collector, OTEL_TRACES_EXPORTER="none")
    assert "(OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER)" in told.err
    assert gateway(lingering) != before


def test_serve_takes_its_place(lingering):
    lingering("exec", "--", "true")
    before = gateway(lingering)
    with lingering.serving() as served:
        assert gateway(lingering) == served.pid
        wait_until(lambda: not os.path.exists(f"/proc/{before}"))


def test_a_state_folder_that_is_removed_takes_it_along(lingering, tmp_path):
    state = tmp_path / "state"
    lingering("--state", str(state), "exec", "--", "true")
    listed = lingering("--state", str(state), "sandboxes", "list").out
    pid = int(listed.partition("gateway ")[2].split()[0])
    state.rename(tmp_path / "elsewhere")
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_each_caller_brings_its_own_variables_and_no_other_callers(lingering):
    lingering.configure(f'{OFF[:-1]}, tools: {{elevated: {{passEnv: ["TOKEN"]}}}}}}')
    shown = "echo ${TOKEN-none} ${SSH_AUTH_SOCK-none}"
    assert lingering("exec", "--", shown, TOKEN="first", SSH_AUTH_SOCK="/a").out == "first /a\n"
    pid = gateway(lingering)
    assert lingering("exec", "--", shown, TOKEN="second").out == "second none\n"
    assert lingering("exec", "--", shown).out == "none none\n"
    assert gateway(lingering) == pid
    with open(f"/proc/{pid}/environ", "rb") as environ:
        assert b"TOKEN=" not in environ.read()


def test_doctor_shows_it(lingering):
    lingering("exec", "--", "true")
    pid = gateway(lingering)
    lines = lingering("doctor", "--json").json
    assert f"gateway {pid} lingers" in next(line["says"] for line in lines if line["name"] == "gateway")


def test_mcp_is_a_pipe_to_it_and_its_client_finds_the_same_session(lingering):
    lingering("exec", "--", "echo kept > note")
    pid = gateway(lingering)
    served = lingering.start("mcp", stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(number, method, **params):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        served.stdin.write(json.dumps(message).encode() + b"\n")
        served.stdin.flush()
        return json.loads(served.stdout.readline())["result"]

    client = {"name": "test", "version": "1"}
    ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
    served.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    assert "exec" in [tool["name"] for tool in ask(2, "tools/list")["tools"]]
    shown = ask(3, "tools/call", name="exec", arguments={"command": "cat note"})
    assert shown["content"][0]["text"] == "kept"
    # One interpreter, which imported nothing of the protocol.
    with open(f"/proc/{served.pid}/maps", encoding="utf-8") as maps:
        assert "pydantic" not in maps.read()
    served.stdin.close()
    assert served.wait(timeout=60) == 0
    served.stdout.close()
    assert gateway(lingering) == pid


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_before_its_caller(lingering, number, code):
    lingering("exec", "--", "true")
    client = lingering.start("exec", "--", "echo $$ > pid; exec sleep 1000")
    wait_until(lambda: (lingering.workspace / "pid").exists() and (lingering.workspace / "pid").read_text())
    client.send_signal(number)
    assert client.wait(timeout=60) == code
    assert not os.path.exists(f"/proc/{(lingering.workspace / 'pid').read_text().strip()}")
