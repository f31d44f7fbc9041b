"""`crabpot runner`: one line of JSON each way, over a socket of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.program import Program

PATIENCE_S = 30.0


@contextmanager
def runner(crabpot: Program, *arguments: str) -> Iterator[str]:
    """Start one, and wait until it says that it listens."""
    started = subprocess.Popen(
        [*crabpot.argv, "runner", *arguments], env=crabpot.environ, stderr=subprocess.PIPE, text=True
    )
    assert started.stderr is not None
    told = ""
    try:
        while "listening on" not in told:
            line = started.stderr.readline()
            assert line, told
            told += line
        yield told
    finally:
        started.terminate()
        started.wait(PATIENCE_S)
        started.stderr.close()


def ask(path: Path, **request: Any) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(str(path))
        with client.makefile("rwb") as stream:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            answer: dict[str, Any] = json.loads(stream.readline())
            return answer


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    work, bare = tmp_path / "brain_work", tmp_path / "brain.git"
    work.mkdir()
    bare.mkdir()
    return work, bare


def test_it_runs_the_usual_commands_in_its_roots(crabpot: Program, roots: tuple[Path, Path], tmp_path: Path) -> None:
    work, bare = roots
    path = tmp_path / "runner.sock"
    with runner(crabpot, "--socket", str(path), "--root", str(work), str(bare)) as told:
        assert "git, cat, ls, mkdir, cp, mv, rm, diff, jq" in told
        assert ask(path, id="1", tool="git", args=["init", "-q"], cwd=str(work))["success"]
        assert ask(path, id="2", tool="git", args=["init", "-q", "--bare"], cwd=str(bare))["success"]
        (work / "config").write_text('{"docker": "../.."}')
        assert ask(path, tool="jq", args=["-r", ".docker", "config"])["stdout"] == "../..\n"
        assert ask(path, tool="git", args=["add", "."], cwd=str(work))["success"]
        message = "see /etc/passwd and ../.., sudo docker"
        assert ask(path, tool="git", args=["commit", "-qm", message], cwd=str(work))["success"]
        assert ask(path, tool="git", args=["push", "-q", str(bare), "HEAD:refs/heads/main"], cwd=str(work))["success"]
        assert message in ask(path, tool="git", args=["log", "main"], cwd=str(bare))["stdout"]
        assert ask(path, tool="cat", args=["/etc/passwd"])["error"]["code"] == "outside"
        assert ask(path, tool="ls", args=[], cwd="/etc")["error"]["code"] == "outside"
        assert ask(path, tool="id", args=[])["error"]["code"] == "permission_denied"
    assert not os.path.exists(path)


def test_the_configuration_lists_its_commands_and_allow_replaces_them(
    crabpot: Program, roots: tuple[Path, Path], tmp_path: Path
) -> None:
    crabpot.configure('{ runner: { commands: ["cat"] } }')
    path = tmp_path / "runner.sock"
    with runner(crabpot, "--socket", str(path), "--root", str(roots[0])) as told:
        assert told.strip().endswith("commands: cat")
    with runner(crabpot, "--socket", str(path), "--root", str(roots[0]), "--allow", "ls", "wc") as told:
        assert told.strip().endswith("commands: ls, wc")
        (roots[0] / "a").write_text("1\n")
        assert ask(path, tool="wc", args=["-l", "a"])["stdout"] == "1 a\n"
        assert ask(path, tool="wc", args=["--files0-from=/etc/passwd"])["error"]["code"] == "outside"


def test_check_tells_what_a_list_gives_away(crabpot: Program) -> None:
    crabpot.configure('{ runner: { commands: ["git", "sudo", "python3"] } }')
    ended = crabpot("check")
    assert ended.code == 2
    assert "never run by this runner" in ended.out
    assert "can run anything" in ended.out


def test_a_gateway_with_runner_socket_set_routes_its_calls_there(
    crabpot: Program, roots: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "runner.sock"
    with runner(crabpot, "--socket", str(path), "--root", str(roots[0])):
        made = crabpot("call", "write", "--args", '{"path": "a.txt", "content": "hello"}', RUNNER_SOCKET=str(path))
        assert made.json["place"] == "sandbox"
        assert (roots[0] / "a.txt").read_text() == "hello"
        assert crabpot("exec", "--", "cat", "a.txt", RUNNER_SOCKET=str(path)).out == "hello"
        assert crabpot("exec", "--", "cat", stdin=b"typed", RUNNER_SOCKET=str(path)).out == "typed"
        refused = crabpot("exec", "--", "cat /etc/passwd", RUNNER_SOCKET=str(path))
        assert refused.code == 125
        assert "leads out" in refused.said()
        told = crabpot("explain", RUNNER_SOCKET=str(path)).out
        assert "socket" in told
        assert "who started the runner confines it" in told
    ended = crabpot("exec", "--", "ls", RUNNER_SOCKET=str(path))
    assert ended.code == 125
    assert "no runner listens" in ended.said()
