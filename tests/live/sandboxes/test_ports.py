"""Servers inside, reached at ports of this machine's loopback: by sockets, and by a real browser's websocket."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.decide import placement, sessions
from tests.support.backends import need
from tests.support.suites import open_gateway
from tests.support.websockets import SERVER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SESSION = "agent:main:ports"


@pytest.fixture(autouse=True)
def _real() -> None:
    need("bubblewrap")


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Any, int]]:
    """Give a gateway whose sandbox serves a page at port 3000, and the port of the host that leads there."""
    with tempfile.TemporaryDirectory(prefix="crabpot-ports-") as folder:
        Path(folder).chmod(0o711)
        sandbox = {"backend": "bubblewrap", "ports": [3000]}
        gateway = open_gateway(json.dumps({"agents": {"defaults": {"sandbox": sandbox}}}), f"{folder}/state")
        try:
            await gateway.call(SESSION, "write", path="server.py", content=SERVER)
            started = await gateway.call(SESSION, "exec", command="python3 server.py", background=True)
            process = started.data["process"]
            for _ in range(100):
                found = await gateway.call(SESSION, "process", action="poll", id=process)
                if "up" in found.stdout:
                    break
                await asyncio.sleep(0.05)
            agent = gateway.settings.agent("main")
            live = await gateway.execution.acquire(agent, placement.decide(sessions.parse(SESSION), agent).answer)
            assert live.ports is not None
            yield gateway, live.ports.opened[3000]
        finally:
            await gateway.close()


async def _get(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    found = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    return found


async def test_a_server_inside_is_reached_at_the_hosts_loopback_and_ends_with_its_sandbox() -> None:
    async with serving() as (_, port):
        answers = await asyncio.gather(*(_get(port) for _ in range(4)))
        assert all(answer.startswith(b"HTTP/1.1 200 OK") and b"WebSocket" in answer for answer in answers)
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_websocket_of_a_real_browser_works() -> None:
    browser = "/usr/bin/chromium"
    if not os.path.exists(browser):
        pytest.skip("chromium is not installed")
    from playwright.async_api import async_playwright

    async with serving() as (_, port), async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        try:
            page = await chromium.new_page()
            await page.goto(f"http://127.0.0.1:{port}/")
            await page.wait_for_function("document.title == 'heard crab'", timeout=30_000)
        finally:
            await chromium.close()
