"""What a whole agent's sandbox is made of, in a container: the folder at its own path, a private home, and ports."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path

import pytest

from crabpot.decide import placement, sessions
from tests.support.backends import need
from tests.support.suites import open_gateway

SESSION = "agent:main:run"
_SERVER = "import socket\none = socket.create_server(('127.0.0.1', 3000))\nprint('up', flush=True)\none.accept()[0].sendall(b'inside')\n"


@pytest.fixture(autouse=True)
def _real() -> None:
    need("docker")


async def test_the_folder_is_at_its_own_path_and_the_home_is_kept_and_a_port_is_reached() -> None:
    with tempfile.TemporaryDirectory(prefix="crabpot-run-", dir="/var/tmp") as place:
        folder = Path(place, "project")
        folder.mkdir()
        for path in (Path(place), folder):
            path.chmod(0o755)
        if os.geteuid() == 0:
            os.chown(folder, 61234, 61234)
        sandbox = {"backend": "docker", "workspace": "rw", "workspaceAt": "same", "home": "tried", "ports": [3000]}
        settings = json.dumps({"agents": {"defaults": {"workspace": str(folder), "sandbox": sandbox}}})
        gateway = open_gateway(settings, f"{place}/state")
        try:
            done = await gateway.call(
                SESSION, "exec", command="pwd; echo $HOME; echo kept > ~/kept; echo made > made.txt"
            )
            assert done.stdout == f"{folder}\n/home/agent\n", done
            assert (folder / "made.txt").read_text() == "made\n"
            await gateway.call(SESSION, "write", path="server.py", content=_SERVER)
            started = await gateway.call(SESSION, "exec", command="python3 server.py", background=True)
            async with asyncio.timeout(60):
                found = await gateway.call(SESSION, "process", action="poll", id=started.data["process"])
                while "up" not in found.stdout:
                    found = await gateway.call(SESSION, "process", action="poll", id=started.data["process"])
            agent = gateway.settings.agent("main")
            live = await gateway.execution.acquire(agent, placement.decide(sessions.parse(SESSION), agent).answer)
            assert live.ports is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", live.ports.opened[3000])
            assert await asyncio.wait_for(reader.read(), 60) == b"inside"
            writer.close()
            await gateway.execution.fleet.stop(live.key)
            again = await gateway.call(SESSION, "exec", command="cat ~/kept")
            assert again.stdout == "kept\n", "the home outlives its container"
        finally:
            await gateway.close()
