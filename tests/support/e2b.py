"""The E2B door without an SDK: an API key, the sandboxes that it created, and the envelopes of their answers."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from crabpot.doors.e2b.connect import envelope
from crabpot.doors.e2b.door import api_key

if TYPE_CHECKING:
    import httpx

    from tests.support.doors import Door

START = "/process.Process/Start"
STREAM = {"Content-Type": "application/connect+json"}


class Api:
    """The door, with an API key of `agent:main:e2b:*`."""

    def __init__(self, made: Door, url: str) -> None:
        self.made = made
        self.url = url
        self.key = api_key(made.made.state, "main")
        self.client = self.keyed(self.key)

    def keyed(self, key: str) -> httpx.AsyncClient:
        """Return a client with this API key."""
        return self.made.client(base_url=self.url, headers={"X-API-Key": key})

    async def create(self, **body: Any) -> Sandbox:
        """Create a sandbox."""
        answer = await self.client.post("/v2/sandboxes", json={"templateID": "base", "timeout": 300, **body})
        assert answer.status_code == 201, answer.text
        return Sandbox(self, answer.json())


class Sandbox:
    """A created sandbox, and the client of a program that uses it."""

    def __init__(self, api: Api, handle: dict[str, Any]) -> None:
        self.id = handle["sandboxID"]
        self.access = handle["envdAccessToken"]
        self.headers = {"E2b-Sandbox-Id": self.id, "X-Access-Token": self.access}
        self.client = api.made.client(base_url=api.url, headers=self.headers)

    async def rpc(self, service: str, **message: Any) -> httpx.Response:
        """Make a unary call."""
        return await self.client.post(service, json=message)

    async def stream(self, service: str, content: Any, **headers: str) -> list[dict[str, Any]]:
        """Make a call whose answer is a stream, and return its messages."""
        answer = await self.client.post(service, content=content, headers={**STREAM, **headers})
        return messages(answer.content)

    async def run(self, *argv: str, **more: Any) -> list[dict[str, Any]]:
        """Run a command to its end."""
        sent = {"process": {"cmd": argv[0], "args": list(argv[1:])}, **more}
        return await self.stream(START, envelope(sent))


def messages(data: bytes) -> list[dict[str, Any]]:
    """Return the messages of a stream of envelopes."""
    found = []
    while data:
        size = int.from_bytes(data[1:5], "big")
        found.append(json.loads(data[5 : 5 + size]))
        data = data[5 + size :]
    return found


def output(events: list[dict[str, Any]], name: str = "stdout") -> bytes:
    """Return what a process wrote."""
    data = [one["event"]["data"].get(name, "") for one in events if "data" in one.get("event", {})]
    return b"".join(map(base64.b64decode, data))
