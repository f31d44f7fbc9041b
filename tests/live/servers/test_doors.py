"""A server's tools through HTTP, and for a sandbox of the E2B door: one policy, one log, a span for each call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import httpx
import pytest

from crabpot.doors.e2b.door import E2bDoor, api_key
from crabpot.doors.http import door
from crabpot.doors.http.listening import address
from tests.live.servers.test_servers import SESSION, opened, records
from tests.support.backends import need
from tests.support.collector import attributes, collecting
from tests.support.mcp_servers import configuration

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    need("bubblewrap")


async def test_the_key_of_an_e2b_program_calls_a_servers_tools_in_its_sandboxes_session(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        text = configuration('{deny: ["fs__die"]}', fs="honest")
        async with (
            opened(open_folder, text, approve=("fs",)) as gateway,
            door.opened(gateway, address("127.0.0.1:0"), None) as listeners,
            httpx.AsyncClient(timeout=60) as client,
        ):
            key = api_key(gateway.execution.around.state, "main")
            e2b = await E2bDoor(listeners).open()
            wanted = {"templateID": "base", "timeout": 300}
            made = await client.post(f"{e2b}/v2/sandboxes", json=wanted, headers={"X-API-Key": key})
            session = f"agent:main:e2b:e2b-{made.json()['sandboxID']}"
            client.headers["Authorization"] = f"Bearer {key}"
            tools = f"{listeners.where[1]}/v1/sessions/{session}/tools"
            listed = [one["name"] for one in (await client.get(tools)).json()["tools"]]
            assert ("fs__echo" in listed, "fs__die" in listed) == (True, False)
            echoed = await client.post(f"{tools}/fs__echo", json={"text": "x"})
            assert (echoed.status_code, echoed.json()["stdout"], echoed.json()["place"]) == (200, "x", "sandbox")
            assert (await client.post(f"{tools}/fs__die", json={})).status_code == 403
            other = tools.replace(session, SESSION)
            assert (await client.post(f"{other}/fs__echo", json={})).status_code == 403, "not its session"
            await gateway.audit.durable()
            seen = [(one["session"], one["error"]) for one in records(open_folder) if one.get("tool") == "fs__echo"]
            assert seen == [(session, None)]
    spans = {span.name: attributes(span) for span in collector.spans()}
    ran, denied = spans["execute_tool fs__echo"], spans["execute_tool other"]
    assert (ran["crabpot.session"], ran["crabpot.place"], ran["crabpot.outcome"]) == (session, "sandbox", "ok")
    assert "mcp.servers.fs" in ran["crabpot.rule"]
    assert (denied["crabpot.outcome"], "tools.deny[0]" in denied["crabpot.rule"]) == ("denied", True)
