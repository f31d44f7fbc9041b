"""A gateway over a runner that listens: found, greeted, shared, lost and found again, and told apart from anything else."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.backends.socket import clauses
from crabpot.backends.socket.clauses import Findings
from crabpot.config.load import from_text
from crabpot.spec.build import build
from tests.support.runner_on_socket import runner_on_socket
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crabpot.model import ToolResult
    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import SandboxSpec


def text(path: str, **sandbox: Any) -> str:
    return json.dumps({"agents": {"defaults": {"sandbox": {"backend": "socket", "socket": path, **sandbox}}}})


def call(path: str, state: Path, *calls: tuple[str, dict[str, Any]], **sandbox: Any) -> list[ToolResult]:
    async def all_of_them() -> list[ToolResult]:
        gateway = open_gateway(text(path, **sandbox), str(state))
        try:
            return [await gateway.call("agent:main:main", tool, args) for tool, args in calls]
        finally:
            await gateway.close()

    return asyncio.run(all_of_them())


def test_tool_calls_are_routed_to_the_runner(tmp_path: Path) -> None:
    with runner_on_socket("git", "cat", "ls") as runner:
        wrote, ran, listed, refused, outside = call(
            runner.path,
            tmp_path / "state",
            ("write", {"path": "a.txt", "content": "hello\n"}),
            ("exec", {"command": "cat a.txt"}),
            ("ls", {}),
            ("exec", {"command": "cat a.txt | sh"}),
            ("read", {"path": "/etc/passwd"}),
        )
        assert (runner.workspace / "a.txt").read_text() == "hello\n"
    assert wrote.success
    assert ran.stdout == "hello\n"
    assert ran.place == "sandbox"
    assert [entry["name"] for entry in (listed.data or {})["entries"]] == ["a.txt"]
    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"
    assert outside.error is not None
    assert outside.error.code == "outside"


def test_a_runner_that_was_started_again_is_found_again(tmp_path: Path) -> None:
    async def lose_it() -> list[ToolResult]:
        with runner_on_socket("ls") as first:
            path = str(tmp_path / "runner.sock")
            os.symlink(first.path, path)
            gateway = open_gateway(text(path), str(tmp_path / "state"))
            results = [await gateway.call("agent:main:main", "ls", {})]
        results.append(await gateway.call("agent:main:main", "ls", {}))
        with runner_on_socket("ls") as second:
            os.unlink(path)
            os.symlink(second.path, path)
            results.append(await gateway.call("agent:main:main", "ls", {}))
            await gateway.close()
        return results

    before, between, after = asyncio.run(lose_it())
    assert before.success
    assert between.error is not None
    assert between.error.code in ("sandbox_lost", "sandbox_unavailable")
    assert after.success


@contextmanager
def listening(path: Path, answer: bytes) -> Iterator[None]:
    """Something else that listens, and says this to whoever connects."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            try:
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(1 << 16)
                        connection.sendall(answer)
                        connection.recv(1)
            except OSError:
                return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400\r\n\r\n", b"{}\n", b'{"op":"ready"', b"x" * 100, b'{"id":"1"}\n'])
def test_whatever_else_listens_there_is_no_runner(tmp_path: Path, answer: bytes) -> None:
    with listening(tmp_path / "s", answer + b"\n"):
        (result,) = call(str(tmp_path / "s"), tmp_path / "state", ("ls", {}))
    assert result.error is not None
    assert result.error.code == "sandbox_unavailable"
    assert "is not a runner" in result.error.message


def test_what_cannot_be_reached_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    for name, told in (("missing", "crabpot runner --socket"), ("dead", "crabpot runner"), ("file", "not a socket")):
        (result,) = call(str(tmp_path / name), tmp_path / "state", ("ls", {}))
        assert result.error is not None
        assert result.error.code == "sandbox_unavailable"
        assert told in result.error.message


# --- the table ----------------------------------------------------------------------------------------------------------


def table(
    around: Surroundings, *, seen: dict[str, str] | None = None, commands: str = "git", **sandbox: Any
) -> dict[str, Any]:
    found = Findings(path="/s", uid=1000, gid=1000, roots=("/r",), commands=(commands,), seen=seen or {})
    return {clause.name: clause for clause in clauses.clauses(described(around, **sandbox), found)}


def described(around: Surroundings, **sandbox: Any) -> SandboxSpec:
    settings = from_text(text("/s", **sandbox), None, around, {})
    return build(settings.agent("main"), "agent:main", around)


def test_what_cannot_be_known_is_called_degraded_and_never_enforced(around: Surroundings) -> None:
    rows = table(around)
    for name in (
        "namespaces",
        "network",
        "capabilities",
        "no-new-privileges",
        "seccomp",
        "limits.memory",
        "limits.pids",
    ):
        assert rows[name].state == "degraded"
        assert "who started the runner confines it" in rows[name].how
    assert rows["user"].state == "enforced"
    assert rows["commands"].state == "enforced"


def test_what_the_kernel_tells_is_told(around: Surroundings) -> None:
    caps = dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16)
    rows = table(
        around, seen={**caps, "NoNewPrivs": "1", "Seccomp": "2", "pid namespace": "its own", "net namespace": "shared"}
    )
    assert rows["capabilities"].state == rows["no-new-privileges"].state == rows["namespaces"].state == "enforced"
    assert rows["seccomp"].state == "degraded"
    assert "gateway's own network" in rows["network"].how
    rows = table(
        around,
        seen={**caps, "CapEff": "00000000000000ff", "NoNewPrivs": "0", "Seccomp": "0", "pid namespace": "shared"},
    )
    assert {rows[name].state for name in ("capabilities", "no-new-privileges", "namespaces")} == {"degraded"}


def test_what_a_runner_elsewhere_cannot_have_is_refused(around: Surroundings, tmp_path: Path) -> None:
    assert table(around, binds=[f"{tmp_path}:/ref"])["binds"].state == "refused"
    assert table(around, hostCommands=["gh"])["hostCommands"].state == "refused"
    assert table(around, user="1001:1001")["user"].state == "refused"
    assert table(around, user="1000:1000")["user"].state == "enforced"
    assert table(around, network={"allow": ["example.com:443"]})["network"].state == "refused"
    assert table(around, env={"KEY": "x"})["env"].state == "degraded"
    assert "env" not in table(around, env={"KEY": "x"}, commands="sh")
    assert table(around, commands="sh")["commands"].state == "degraded"


def test_the_environment_sets_backend_and_path(around: Surroundings) -> None:
    chosen = from_text("{}", None, around, {"RUNNER_SOCKET": "/run/r.sock"}).agent("main").sandbox
    assert (chosen.backend, chosen.socket) == ("socket", "/run/r.sock")
