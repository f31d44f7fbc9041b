"""`crabpot serve`: the command line uses a running gateway, and says the same as without it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys

import pytest

from crabpot.doors.local.client import connect
from tests.support.backends import need
from tests.support.waiting import wait_until


def test_what_is_said_through_a_running_gateway_is_what_is_said_without(placed):
    commands = [
        ["exec", "--", "echo out; echo err >&2; exit 3"],
        ["exec", "--timeout", "0.2", "--", "sleep 1000"],
        ["exec", "--timeout", "1e9", "--", "true"],
        ["exec", "--cwd", "nowhere", "--", "true"],
        ["exec", "--session", "", "--", "true"],
        ["call", "read", "--args", '{"path": "missing"}'],
        ["call", "no-such-tool"],
        ["call", "exec", "--args", '{"command": "seq 100000"}'],
        ["cp", "agent:main:main:/nowhere/x", "x"],
        ["explain", "--session", "agent:ops:"],
        ["snapshots", "list", "--session", "agent:ops:"],
    ]

    def said(command):
        ended = placed(*command)
        if command[0] != "call":
            return ended.code, ended.out, ended.err
        result = ended.json
        del result["id"], result["duration_ms"]
        return ended.code, result, ended.err

    alone = [said(command) for command in commands]
    with placed.serving():
        assert [said(command) for command in commands] == alone


def test_standard_input_and_large_files_pass_through(placed, tmp_path):
    content = os.urandom(5_000_000)
    (tmp_path / "a").write_bytes(content)
    with placed.serving():
        done = subprocess.run(
            [*placed.argv, "exec", "--", "head -c 700000"],
            input=content,
            stdout=subprocess.PIPE,
            env=placed.environ,
            timeout=60,
            check=True,
        )
        assert done.stdout == content[:700_000]
        where = f"agent:main:main:{placed.workspace}/b"
        assert placed("cp", str(tmp_path / "a"), where).code == 0
        assert placed("cp", where, str(tmp_path / "c")).code == 0
    assert (tmp_path / "c").read_bytes() == content


def test_a_background_process_lives_between_calls_and_is_fed_polled_and_killed(placed):
    def call(tool, **args):
        return placed("call", tool, "--args", json.dumps(args)).json

    with placed.serving():
        process = call("exec", command="cat; sleep 1000", background=True)["data"]["process"]
        assert call("process", action="write", id=process, data="hello\n")["success"]
        seen = ""

        def poll():
            nonlocal seen
            seen += call("process", action="poll", id=process)["stdout"]
            return seen

        assert wait_until(poll) == "hello\n"
        listed = call("process", action="list")["data"]["processes"]
        assert [(one["id"], one["running"]) for one in listed] == [(process, True)]
        assert call("process", action="kill", id=process)["data"]["running"] is False


def test_the_socket_is_private_and_a_second_one_is_refused(placed):
    with placed.serving():
        path = placed.state / "serve.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        ended = placed("serve")
        assert ended.code == 1
        assert "already serves" in ended.said()
        assert placed("exec", "--", "true").code == 0
    assert not path.exists()


def test_a_gateway_that_was_killed_leaves_a_socket_that_is_in_nobodys_way(placed):
    served = placed.start("serve", stdout=subprocess.PIPE)
    served.stdout.readline()
    placed("call", "exec", "--args", '{"command": "echo $$ > pid; sleep 1000", "background": true}')
    wait_until(lambda: (placed.workspace / "pid").exists() and (placed.workspace / "pid").read_text())
    served.kill()
    served.wait()
    served.stdout.close()
    pid = (placed.workspace / "pid").read_text().strip()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
    assert (placed.state / "serve.sock").exists()
    assert placed("exec", "--", "echo alone").out == "alone\n"
    with placed.serving():
        assert placed("exec", "--", "echo again").out == "again\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_told_to_end_it_ends_everything_in_order(placed, number):
    served = placed.start("serve", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    served.stdout.readline()
    client = placed.start("exec", "--", "echo $$ > pid; sleep 1000", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: (placed.workspace / "pid").exists() and (placed.workspace / "pid").read_text())
    served.send_signal(number)
    _, complaints = served.communicate(timeout=30)
    assert (served.returncode, complaints) == (0, b"")
    _, told = client.communicate(timeout=30)
    assert client.returncode == 125
    assert b"crabpot: " in told
    assert b"Traceback" not in told
    assert not os.path.exists(f"/proc/{(placed.workspace / 'pid').read_text().strip()}")
    assert not (placed.state / "serve.sock").exists()


def test_an_output_that_nobody_reads_does_not_stop_the_gateway(crabpot):
    """Each request is announced there, and an agent can make as many as it likes."""
    text = """{agents: {defaults: {sandbox: {mode: "all"}}},
               tools: {elevated: {enabled: true, patterns: ["uname *"], approvalTimeout: 60}}}"""
    crabpot.configure(text)

    async def flood(state):
        client = await connect(state)
        long = "x" * 2000
        asking = [
            asyncio.create_task(client.call(f"agent:hostile{n % 4}:{n % 8}", "exec", {"command": f"uname {long}{n}"}))
            for n in range(200)
        ]
        async with asyncio.timeout(60):
            while len(json.loads(crabpot("approvals", "list", "--json").out)) < 100:
                await asyncio.sleep(0.1)
            other = await connect(state)
            assert (await other.call("agent:other:main", "exec", {"command": "echo on"})).stdout == "on\n"
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await client.close()
        await other.close()

    served = crabpot.start("serve", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert b"serves on" in served.stdout.readline()
        asyncio.run(flood(str(crabpot.state)))
        served.terminate()
        served.wait(timeout=60)
    finally:
        served.kill()
        served.communicate()


# The real `serve`, with a host tool whose thread waits for ever: a FIFO that nobody writes.
STUCK = """
import asyncio, os, sys
from crabpot import app
from crabpot.doors import shutdown
from crabpot.doors.cli.commands import serve as serving

class Stuck(app.App):
    def gateway(self):
        made = super().gateway()

        async def wait_for_ever(path):
            return await asyncio.to_thread(os.open, path, os.O_RDONLY)

        made.register("message", wait_for_ever)
        return made

shutdown.GRACE_S = 3.0
wired = app.start(config=None, state=None, environ=os.environ)
asyncio.run(serving._serve(Stuck(config=wired.config, around=wired.around, environ=os.environ), None))
"""


def test_told_to_end_it_ends_even_if_every_thread_of_an_agent_is_stuck(placed, tmp_path):
    os.mkfifo(tmp_path / "alternates")
    served = subprocess.Popen(
        [sys.executable, "-c", STUCK],
        cwd=placed.home,
        env=placed.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    served.stdout.readline()
    stuck = json.dumps({"path": str(tmp_path / "alternates")})
    clients = [
        placed.start("call", "message", "--args", stuck, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(10)
    ]
    wait_until(lambda: _intents(placed) == 10)
    # Another session is answered meanwhile, and so is whoever asks for what only the gateway itself knows.
    assert placed("exec", "--session", "agent:other:main", "--", "echo on").out == "on\n"
    assert placed("approvals", "list").code == 0
    served.send_signal(signal.SIGTERM)
    _, complaints = served.communicate(timeout=30)
    assert served.returncode == 1
    assert b"stuck" in complaints
    for client in clients:
        client.wait(timeout=30)
    assert _intents(placed) == 10


def _intents(placed):
    records = map(json.loads, placed("audit", "export").out.splitlines())
    return sum(record["kind"] == "intent" and record["tool"] == "message" for record in records)


def test_a_client_that_is_killed_takes_its_command_along(placed):
    with placed.serving():
        client = placed.start("exec", "--", "echo $$ > pid; sleep 1000")
        wait_until(lambda: (placed.workspace / "pid").exists() and (placed.workspace / "pid").read_text())
        client.kill()
        client.wait()
        pid = (placed.workspace / "pid").read_text().strip()
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
        assert placed("exec", "--", "echo on").out == "on\n"


def test_nonsense_drops_only_who_sent_it(placed):
    with placed.serving():
        with socket.socket(socket.AF_UNIX) as rude:
            rude.connect(str(placed.state / "serve.sock"))
            rude.sendall(b"GET / HTTP/1.1\r\n\r\n")
            rude.settimeout(20)
            assert rude.recv(100) == b""
        assert placed("exec", "--", "echo on").out == "on\n"


def test_a_gateway_that_runs_on_another_configuration_is_not_asked(placed, tmp_path):
    other = tmp_path / "other.json5"
    other.write_text('{agents: {defaults: {sandbox: {mode: "off"}}}, tools: {deny: ["exec"]}}')
    with placed.serving():
        ended = placed("--config", str(other), "exec", "--", "true")
        assert ended.code == 126
        assert "another configuration" in ended.err
        assert "tools.deny[0]" in ended.err


def test_a_reader_that_leaves_ends_the_command_in_the_gateway(placed):
    with placed.serving():
        client = placed.start("exec", "--", "echo $$ > pid; exec yes", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert client.stdout.readline() == b"y\n"
        client.stdout.close()
        assert client.wait(timeout=30) == 141
        assert client.stderr.read() == b""
        client.stderr.close()
        pid = (placed.workspace / "pid").read_text().strip()
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_folder_that_others_can_write_is_refused(placed):
    placed.state.mkdir(parents=True, exist_ok=True)
    placed.state.chmod(0o777)
    ended = placed("serve")
    assert ended.code == 1
    assert "chmod go-w" in ended.said()


def test_a_port_that_is_taken_is_told_in_a_sentence(placed):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = placed("serve", "--listen", place)
    assert (ended.code, ended.err) == (1, f"crabpot: {place}: Address already in use; choose another port\n")


def test_what_answers_everybody_goes_before_what_agents_run(placed):
    if os.geteuid() != 0:
        pytest.skip("only root may go before others")
    with placed.serving() as serving:
        inside = placed("exec", "--", "awk '{print $19}' /proc/self/stat")
        assert os.getpriority(os.PRIO_PROCESS, serving.pid) == -10
    assert inside.out == "0\n"


def test_a_command_on_the_host_goes_with_all_others_though_its_guard_was_made_before_them(crabpot):
    crabpot.configure('{tools: {elevated: {enabled: true, patterns: ["cut *"], requireApproval: false}}}')
    with crabpot.serving():
        # The command's own, and that of the runner in the guard, which starts all there is in it.
        for process in ("self", "1", "2"):
            ran = crabpot("exec", "--", f"cut -d ' ' -f 19 /proc/{process}/stat")
            assert (ran.code, ran.out) == (0, "0\n"), ran.said()


def test_it_keeps_a_sandbox_ready_that_no_list_shows_and_its_end_takes_away(crabpot):
    need("bubblewrap")

    def spares():
        return list((crabpot.state / "sandboxes").glob("spare-*.json"))

    with crabpot.serving():
        wait_until(spares)
        assert crabpot("sandboxes", "list", "--json").json == []
        assert crabpot("exec", "--", "echo here").out == "here\n"
        (row,) = crabpot("sandboxes", "list", "--json").json
        assert row["scope_key"] == "agent:main:main"
    wait_until(lambda: not spares())


def test_it_keeps_none_where_the_configuration_says_so(crabpot):
    need("bubblewrap")
    crabpot.configure("{agents: {defaults: {sandbox: {warm: 0}}}}")
    with crabpot.serving():
        assert crabpot("exec", "--", "echo here").out == "here\n"
        names = [path.name for path in (crabpot.state / "sandboxes").iterdir()]
        assert not [name for name in names if name.startswith("spare-")]
