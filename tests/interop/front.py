"""A front for the MCP conformance suite, which speaks plain HTTP, has no token, and asks for tools of its own names.

`front.py PORT http URL TOKEN` passes everything on to `crabpot serve`, with the token. `front.py PORT stdio COMMAND…` starts
the command for each session and passes its lines on. Both turn the suite's fixture tools into calls of ours that do the same.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
PREPARE = (
    f"echo {PIXEL} | base64 -d > pixel.png; echo {SILENCE} | base64 -d > silence.wav; head -c 99 /dev/zero > zeros.bin"
)
CALLS = {
    "test_simple_text": ("exec", {"command": "echo a simple text"}),
    "test_error_handling": ("read", {"path": "missing"}),
    "test_image_content": ("read", {"path": "pixel.png", "encoding": "base64"}),
    "test_audio_content": ("read", {"path": "silence.wav", "encoding": "base64"}),
    "test_embedded_resource": ("read", {"path": "zeros.bin", "encoding": "base64"}),
    "test_tool_with_progress": ("exec", {"command": "for n in 1 2 3; do echo $n; sleep 0.1; done"}),
    "test_elicitation": ("exec", {"command": "id -u"}),
    "prepare": ("exec", {"command": PREPARE}),
}


def ours(body: bytes) -> bytes:
    """Turn a call of a fixture tool into one of ours."""
    message = json.loads(body) if body else {}
    params = message.get("params") or {}
    if message.get("method") == "tools/call" and params.get("name") in CALLS:
        params["name"], params["arguments"] = CALLS[params["name"]]
        return json.dumps(message).encode()
    return body


def http_front(port: int, url: str, token: str):
    client = httpx.AsyncClient(timeout=None)
    own = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def pass_on(request):
        left_out = ("content-length", "connection", "transfer-encoding")
        headers = {name: value for name, value in request.headers.items() if name not in left_out}
        # Only our own name becomes the gateway's: what the suite makes up must be refused by the gateway itself.
        if headers.get("host") in own:
            headers["host"] = url.removeprefix("http://")
        if headers.get("origin", "").removeprefix("http://") in own:
            headers["origin"] = url
        headers["authorization"] = f"Bearer {token}"
        asked = client.build_request(
            request.method, f"{url}/mcp", headers=headers, content=ours(await request.body()) or None
        )
        answer = await client.send(asked, stream=True)

        async def body():
            try:
                async for piece in answer.aiter_raw():
                    yield piece
            finally:
                await answer.aclose()

        kept = {name: value for name, value in answer.headers.items() if name not in left_out}
        return StreamingResponse(body(), answer.status_code, kept)

    return pass_on


class Started:
    """One session: a process, and who waits for what it says."""

    def __init__(self, process):
        self.process = process
        self.streams: dict[object, asyncio.Queue[Any]] = {}
        self.reading = asyncio.create_task(self.read())

    async def read(self):
        async for line in self.process.stdout:
            message = json.loads(line)
            answered = "method" not in message and message.get("id") in self.streams
            # What is no answer goes along with the latest request that waits for one.
            key = message["id"] if answered else next(reversed(self.streams), None)
            if key is not None:
                self.streams[key].put_nowait(message)

    async def events(self, key):
        queue = self.streams[key]
        while True:
            message = await queue.get()
            yield f"event: message\ndata: {json.dumps(message)}\n\n"
            if "method" not in message and message.get("id") == key:
                del self.streams[key]
                return


def stdio_front(command: list[str]):
    sessions: dict[str, Started] = {}

    async def pass_on(request):
        key = request.headers.get("mcp-session-id")
        if request.method == "GET":
            return Response(status_code=405)
        if request.method == "DELETE":
            sessions.pop(key).process.stdin.close()
            return Response(status_code=200)
        body = ours(await request.body())
        message = json.loads(body)
        if message.get("method") == "initialize":
            key = secrets.token_hex(8)
            pipes: dict[str, Any] = {
                "stdin": asyncio.subprocess.PIPE,
                "stdout": asyncio.subprocess.PIPE,
                "limit": 1 << 24,
            }
            sessions[key] = Started(await asyncio.create_subprocess_exec(*command, **pipes))
        session = sessions[key]
        asks = "method" in message and "id" in message
        if asks:
            session.streams[message["id"]] = asyncio.Queue()
        session.process.stdin.write(json.dumps(message).encode() + b"\n")
        await session.process.stdin.drain()
        if not asks:
            return Response(status_code=202)
        headers = {"mcp-session-id": key}
        return StreamingResponse(session.events(message["id"]), 200, headers, "text/event-stream")

    return pass_on


if __name__ == "__main__":
    at, kind, *rest = sys.argv[1:]
    front = http_front(int(at), *rest) if kind == "http" else stdio_front(rest)
    uvicorn.run(
        Starlette(routes=[Route("/mcp", front, methods=["GET", "POST", "DELETE"])]), port=int(at), log_level="error"
    )
