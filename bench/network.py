"""Measure a download through the gateway, beside the same through a plain proxy on the host."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.figures import Figure, Series
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crabpot.gateway import Gateway

    Open = Callable[[str, str], Gateway]

SIZE = 1 << 30
_MIB = 1024**2

# Each in a process of its own: what is compared must not wait for what measures.
_SERVER = """
import os, socket, sys, threading
size = int(sys.argv[1])
content = os.memfd_create("content")
os.truncate(content, size)
def serve(one):
    with one:
        one.recv(65536)
        one.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n" % size)
        at = 0
        while at < size:
            at += os.sendfile(one.fileno(), content, at, 1 << 22)
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""
_PLAIN_PROXY = """
import asyncio
async def pass_on(reader, writer):
    while data := await reader.read(1 << 18):
        writer.write(data)
        await writer.drain()
    writer.close()
async def serve(reader, writer):
    host, port = (await reader.readuntil(b"\\r\\n\\r\\n")).split()[1].decode().rsplit(":", 1)
    there = await asyncio.open_connection(host, int(port), limit=1 << 18)
    writer.write(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
    await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))
async def main():
    listening = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 18)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()
asyncio.run(main())
"""


@contextmanager
def _running(source: str, *arguments: str) -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-I", "-c", source, *arguments], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def _curl(port: int, proxy: str) -> str:
    return f"curl -sSf -p --noproxy '' {proxy} -o /dev/null -w '%{{speed_download}}' http://127.0.0.1:{port}/"


async def download(open_gateway: Open, rounds: int) -> Figure:
    """Download one gigabyte, by CONNECT, in turns."""
    ours: list[float] = []
    plain: list[float] = []
    with _running(_SERVER, str(SIZE)) as port, _running(_PLAIN_PROXY) as proxy:
        network = json.dumps({"allow": [f"127.0.0.1:{port}"]})
        with tempfile.TemporaryDirectory(prefix="crabpot-bench-") as state:
            gateway = open_gateway(f"{{ agents: {{ defaults: {{ sandbox: {{ network: {network} }} }} }} }}", state)
            try:
                for _ in range(rounds):
                    ours.append(await _inside(gateway, _curl(port, "")))
                    plain.append(await asyncio.to_thread(_outside, _curl(port, f"-x http://127.0.0.1:{proxy}")))
            finally:
                await gateway.close()
    return Figure(
        what="1 GB downloaded through the gateway",
        ours=Series(name="through the gateway", values=tuple(ours), unit="MB/s"),
        other=Series(name="through a plain proxy on the host", values=tuple(plain), unit="MB/s"),
        at_least=1 / 3,
    )


async def _inside(gateway: Gateway, command: str) -> float:
    result = await gateway.call("agent:main:bench", "exec", command=command)
    if not result.success:
        raise CrabpotError(f"a measured download failed: {result.error or result.stderr}")
    return float(result.stdout) / _MIB


def _outside(command: str) -> float:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    return float(done.stdout) / _MIB
