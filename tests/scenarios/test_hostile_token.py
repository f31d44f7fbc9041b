"""One token uses everything that it is given at the doors, at once; another token and the dashboard go on."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from tests.hostile_run.token import ACCEPT, HALF_OPEN, HELLO, SLOW, TIMEOUT_S, HostileToken

FEW = """{ gateway: { maxSandboxes: 20, maxSandboxesPerAgent: 4 } }"""
# Generous: the machine is busy with the attack itself.
PATIENCE_S = 240.0


def test_one_hostile_token_takes_nothing_from_another_nor_from_the_dashboard(crabpot):
    crabpot.configure(FEW)
    hostile = crabpot("tokens", "add", "hostile", "--session", "agent:ops:*").out.strip()
    honest = crabpot("tokens", "add", "honest", "--session", "agent:main:*").out.strip()

    async def first_event(operator):
        async with operator.stream("GET", "/v1/events") as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    return
        raise AssertionError("the feed ended before its first event")

    async def others(port):
        url = f"http://127.0.0.1:{port}"
        token = (crabpot.state / "http.token").read_text().strip()
        bearing: dict[str, Any] = {"headers": {"Authorization": f"Bearer {honest}"}, "timeout": TIMEOUT_S}
        operating: dict[str, Any] = {"headers": {"Authorization": f"Bearer {token}"}, "timeout": TIMEOUT_S}
        for turn in range(10):
            # A new connection each time: it is the coming in that was closed.
            async with httpx.AsyncClient(base_url=url, **bearing) as client:
                path = f"/v1/sessions/agent:main:{turn % 2}/tools/exec"
                ran = await client.post(path, json={"command": f"echo {turn}"})
                assert (ran.status_code, ran.json()["stdout"]) == (200, f"{turn}\n"), ran.text
                assert (await client.post("/mcp", json=HELLO, headers=ACCEPT)).status_code == 200
            async with httpx.AsyncClient(base_url=url, **operating) as client:
                for path in ("/", "/v1/approvals", "/v1/sandboxes", "/v1/audit?limit=10", "/metrics"):
                    assert (await client.get(path)).status_code == 200, path
                await first_event(client)

    async def all_at_once(port):
        attacker = HostileToken(port, hostile)
        async with asyncio.timeout(PATIENCE_S), attacker.at_work():
            while not all(
                attacker.done[one] for one in ("initialized", "refused", "unread", "unended", "invented", "nested")
            ) or (attacker.done["half_open"] < HALF_OPEN or attacker.done["slow"] < SLOW):
                await asyncio.sleep(0.05)
            await others(port)
        return attacker.done

    with crabpot.listening(orderly=False) as (_, port):
        done = asyncio.run(all_at_once(port))
        live = [one for one in crabpot("sandboxes", "list", "--json").json if one["state"] == "live"]
    assert sum(one["scope_key"].startswith("agent:ops:") for one in live) <= 4
    assert done["initialized"] > 0
