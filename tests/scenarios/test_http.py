"""`crabpot serve` by HTTP, and `crabpot tokens`: real processes, as a person starts them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

HERE = Path(__file__).parent
S = "agent:main:main"
EXEC = f"/v1/sessions/{S}/tools/exec"


def operator(program, port):
    token = (program.state / "http.token").read_text().strip()
    return httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"}, timeout=60)


def test_a_client_calls_tools_by_the_loopback_and_by_the_socket(placed):
    with placed.listening() as (_, port):
        with operator(placed, port) as client:
            assert client.post(EXEC, json={"command": "echo by loopback"}).json()["stdout"] == "by loopback\n"
        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(placed.state / "http.sock")), base_url="http://x"
        ) as client:
            assert client.post(EXEC, json={"command": "echo by socket"}).json()["stdout"] == "by socket\n"
        # The command line uses the same gateway.
        assert placed("exec", "--", "echo by command").out == "by command\n"
    assert not (placed.state / "http.sock").exists()


def test_nothing_but_the_loopback_is_served(placed):
    ended = placed("serve", "--listen", "0.0.0.0:8080")
    assert ended.code == 2
    assert "127.0.0.1" in ended.said()


def test_tokens_are_made_listed_rotated_and_removed(placed):
    with placed.listening() as (_, port):
        made = placed("tokens", "add", "bot", "--session", "agent:ops:*", "--sender", "telegram:7", "--allow-host")
        secret = made.out.strip()
        listed = json.loads(placed("tokens", "list", "--json").out)
        assert [(one["name"], one["role"], one["sessions"]) for one in listed] == [
            ("operator", "operator", []),
            ("bot", "agent", ["agent:ops:*"]),
        ]
        assert "digest" not in listed[0]
        assert secret not in (placed.state / "tokens.json").read_text()

        def status(token):
            return httpx.post(
                f"http://127.0.0.1:{port}/v1/sessions/agent:ops:1/tools/ls",
                headers={"Authorization": f"Bearer {token}"},
            ).status_code

        assert status(secret) == 200
        second = placed("tokens", "rotate", "bot").out.strip()
        assert (status(secret), status(second)) == (401, 200)
        assert placed("tokens", "remove", "bot").code == 0
        assert status(second) == 401
        assert "bot" not in placed("tokens", "list").out
    assert placed("tokens", "rotate", "bot").code == 1
    assert placed("tokens", "add", "bot").code == 2
    assert stat.S_IMODE((placed.state / "http.token").stat().st_mode) == 0o600


def test_schemathesis_finds_no_fault(crabpot, tmp_path):
    """In a real sandbox: what it makes up is run."""
    with crabpot.listening() as (_, port):
        token = (crabpot.state / "http.token").read_text().strip()
        command = [
            *(os.path.join(os.path.dirname(sys.executable), "st"), "--config-file", str(HERE / "schemathesis.toml")),
            *("run", f"http://127.0.0.1:{port}/openapi.json", "-H", f"Authorization: Bearer {token}"),
            *("--max-examples", "10", "--phases", "coverage,fuzzing", "--seed", "1", "--no-color"),
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stdout[-8000:]


def test_killed_in_the_middle_it_loses_nothing_that_was_answered(placed):
    with placed.listening() as (served, port):
        with operator(placed, port) as client:
            done = [client.post(EXEC, json={"command": f"echo {n} >> written"}).json()["id"] for n in range(20)]
        served.send_signal(signal.SIGKILL)
        served.wait(timeout=60)
    assert (placed.workspace / "written").read_text().split() == [str(n) for n in range(20)]
    recorded = {json.loads(line)["call"] for line in placed("audit", "tail", "-n", "100", "--json").out.splitlines()}
    assert set(done) <= recorded
    assert "the chain holds" in placed("audit", "verify").out
    with placed.listening() as (_, port), operator(placed, port) as client:
        assert client.post(EXEC, json={"command": "wc -l < written"}).json()["stdout"].strip() == "20"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_ends_in_order_whatever_runs(placed, number):
    with placed.listening() as (served, port), operator(placed, port) as client:
        stream = client.stream("POST", EXEC, json={"command": "echo $$; sleep 1000"}, params={"stream": "1"})
        with stream as answer:
            lines = answer.iter_lines()
            assert next(lines) == "event: output"
            pid = int(json.loads(next(lines).removeprefix("data: "))["text"])
            served.send_signal(number)
            assert served.wait(timeout=60) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert served.stderr.read() == b""
