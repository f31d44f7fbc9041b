"""Servers at a URL: reached through egress alone, with keys that only the gateway adds, and never trusted."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.audit.reading import AuditReader
from crabpot.doors.sandboxes import sweep
from crabpot.egress.reaching import Egress, EgressContext
from crabpot.egress.secrets import Secrets
from crabpot.errors import CrabpotError
from crabpot.sandboxes.streams import Streams
from crabpot.servers.approving import candidate
from tests.support.remote_servers import served
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from crabpot.gateway import Gateway
    from tests.support.remote_servers import Served

SESSION = "agent:main:main"


@asynccontextmanager
async def reached(
    tmp_path: Path, *, json_response: bool = False, url: str | None = None, token: str | None = None, **more: Any
) -> AsyncIterator[tuple[Gateway, Served]]:
    async with served(json_response, token) as server:
        at = (url or "http://127.0.0.1:{port}/mcp").format(port=server.port)
        text = json.dumps({"mcp": {"servers": {"far": {"url": at, **more}}}})
        gateway = open_gateway(text, str(tmp_path / "state"))
        try:
            yield gateway, server
        finally:
            await gateway.close()


async def approve(gateway: Gateway) -> None:
    assert gateway.servers is not None
    (await candidate(gateway.servers, "far")).keep(by="test")


def connections(tmp_path: Path) -> list[tuple[str, str]]:
    found = AuditReader(str(tmp_path / "state")).last(200)
    return [(one["destination"], one["answer"]) for one in found if one["kind"] == "connection"]


@pytest.mark.parametrize("answers", ["events", "json"])
async def test_a_remote_server_is_approved_listed_and_called(tmp_path: Path, answers: str) -> None:
    async with reached(tmp_path, json_response=answers == "json") as (gateway, server):
        await approve(gateway)
        assert "far__echo" in [one["name"] for one in await gateway.offered(SESSION)]
        result = await gateway.call(SESSION, "far__echo", text="héllo")
        assert (result.success, result.stdout, result.place) == (True, "héllo", "none"), result
        await gateway.audit.durable()
        assert (f"127.0.0.1:{server.port}", "allowed") in connections(tmp_path)
        await gateway.servers.restart("far")
        assert server.requests[-1][0] == "DELETE", "the server is told that the session ended"


async def test_progress_is_passed_and_localhost_is_this_machine(tmp_path: Path) -> None:
    async with reached(tmp_path, url="http://localhost:{port}/mcp") as (gateway, _):
        await approve(gateway)
        heard: list[bytes] = []

        async def sink(_stream: str, data: bytes) -> None:
            heard.append(data)

        result = await gateway.call(SESSION, "far__steps", streams=Streams(sink=sink))
        assert (result.stdout, heard) == ("done", [b"1/2 half\n", b"2/2 whole\n"])


async def test_the_gateway_adds_the_key_and_nobody_else_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_KEY", "real-value")
    async with reached(tmp_path, secrets=["FAR_KEY"]) as (gateway, server):
        await approve(gateway)
        assert {headers["authorization"] for _, headers in server.requests} == {"Bearer real-value"}
        await gateway.audit.durable()
        assert "real-value" not in json.dumps(AuditReader(str(tmp_path / "state")).last(200))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, r'crabpot secrets set NAME`, and write secrets: \["NAME"\] in .*mcp\.servers\.far'),
        ("old", r"refused the key in Authorization \(HTTP 401\): renew what .*mcp\.servers\.far\.secrets names"),
        ("the-token", None),
    ],
)
async def test_a_server_behind_oauth_is_called_with_a_token_and_says_what_to_set_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, said: str | None
) -> None:
    monkeypatch.setenv("FAR_KEY", value or "")
    secrets: dict[str, Any] = {} if value is None else {"secrets": ["FAR_KEY"]}
    async with reached(tmp_path, token="the-token", **secrets) as (gateway, _):
        if said is not None:
            with pytest.raises(CrabpotError, match=said):
                await approve(gateway)
            return
        await approve(gateway)
        assert (await gateway.call(SESSION, "far__echo", text="x")).stdout == "x"


async def test_a_missing_key_is_named(tmp_path: Path) -> None:
    async with reached(tmp_path, secrets=["FAR_KEY_THAT_IS_MISSING"]) as (gateway, server):
        with pytest.raises(CrabpotError, match="crabpot secrets set FAR_KEY_THAT_IS_MISSING"):
            await approve(gateway)
        assert server.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_elsewhere_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("FAR_KEY", "real-value")
    async with served() as elsewhere, reached(tmp_path, secrets=["FAR_KEY"]) as (gateway, server):
        server.instead = status, {"location": elsewhere.url}, b""
        with pytest.raises(CrabpotError, match="not followed"):
            await approve(gateway)
        assert elsewhere.requests == []


class Leads:
    """A resolver whose names all lead to this machine, as an attacker's would."""

    async def resolve(self, _host: str) -> tuple[IPv4Address, ...]:
        return (IPv4Address("127.0.0.1"),)


async def test_a_name_that_leads_to_a_private_address_is_refused_unless_that_is_listed(tmp_path: Path) -> None:
    async with reached(tmp_path, url="https://inner.example:{port}/mcp") as (gateway, server):
        secrets = Secrets({}, str(tmp_path))
        context = EgressContext(resolver=Leads(), secrets=secrets, record=gateway.audit.record)
        gateway.servers.starter = replace(gateway.servers.starter, egress=lambda scope, _: Egress(scope, context))
        with pytest.raises(CrabpotError, match=r"inner\.example leads to 127\.0\.0\.1, and 127\.0\.0\.1 is"):
            await approve(gateway)
        assert server.requests == []


async def test_a_server_that_must_prove_its_name_and_does_not_gets_nothing(tmp_path: Path) -> None:
    async with reached(tmp_path, url="https://127.0.0.1:{port}/mcp") as (gateway, server):
        with pytest.raises(CrabpotError, match="no TLS could be agreed on"):
            await approve(gateway)
        assert server.requests == []


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ((500, {}, b"boom"), "Server returned an error response"),
        ((200, {"content-type": "application/json"}, b"hello, I am no server"), "did not greet as a server does"),
        ((200, {"content-type": "text/html"}, b"<p>"), "Unexpected content type"),
        (
            (200, {"content-type": "application/json", "content-encoding": "gzip"}, gzip.compress(b" " * 10_000_000)),
            "compressed",
        ),
        ((200, {"content-type": "application/json"}, b" " * (65 << 20)), "more than 64 MiB"),
    ],
)
async def test_an_answer_that_is_none_is_a_clear_error(
    tmp_path: Path, instead: tuple[int, dict[str, str], bytes], said: str
) -> None:
    async with reached(tmp_path) as (gateway, server):
        server.instead = instead
        with pytest.raises(CrabpotError, match="the server far is not there") as caught:
            await approve(gateway)
        assert said in str(caught.value)


async def test_calls_that_hang_or_answer_too_much_end_and_the_next_one_works(tmp_path: Path) -> None:
    async with reached(tmp_path, sandbox={"limits": {"timeLimit": 2, "output": "64k"}}) as (gateway, _):
        await approve(gateway)
        slow = await gateway.call(SESSION, "far__slow")
        assert slow.error.code == "timeout"
        cut = await gateway.call(SESSION, "far__big", size=100_000)
        assert (len(cut.stdout), cut.truncated) == (65536, True)
        big = await gateway.call(SESSION, "far__big", size=3_000_000)
        assert not big.success
        assert (await gateway.call(SESSION, "far__echo", text="after")).stdout == "after"


async def test_a_server_that_goes_away_is_reached_again_when_it_is_back(tmp_path: Path) -> None:
    async with reached(tmp_path) as (gateway, server):
        await approve(gateway)
        assert (await gateway.call(SESSION, "far__echo", text="x")).success
        server.instead = 503, {}, b""
        gone = await gateway.call(SESSION, "far__echo", text="x")
        assert (gone.success, "far" in gone.error.message) == (False, True)
        server.instead = None
        await gateway.servers.restart("far")
        assert (await gateway.call(SESSION, "far__echo", text="x")).success


async def test_a_remote_server_ends_when_idle_and_makes_room_for_another_session(tmp_path: Path) -> None:
    async with reached(tmp_path, sandbox={"prune": {"idleHours": 0.0001}}) as (gateway, _):
        await approve(gateway)
        servers = gateway.servers
        servers.settings = replace(
            servers.settings, gateway=replace(servers.settings.gateway, max_sandboxes_per_agent=2)
        )
        for name in ("a", "b", "c"):
            assert (await gateway.call(f"agent:main:{name}", "far__echo", text="x")).success
        assert list(servers._running) == ["server:far:agent:main:b", "server:far:agent:main:c"]
        await asyncio.sleep(0.5)
        await sweep(gateway)
        assert list(servers._running) == []
        assert (await gateway.call("agent:main:a", "far__echo", text="x")).success
