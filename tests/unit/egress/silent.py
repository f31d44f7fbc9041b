"""Run in namespaces of its own, where the name server hears everything and answers nothing.

Two hundred questions of one agent for names that nobody answers; then another agent wants a name of /etc/hosts.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

from crabpot.decide.scope import acting_for
from crabpot.egress.resolving import SystemResolver, Unresolved


async def ask(resolver, agent, scope, name):
    with acting_for(agent, scope):
        return await resolver.resolve(name)


async def main():
    deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    deaf.bind(("127.0.0.1", 53))
    resolver = SystemResolver()
    # Several scopes, and names of their own each: nothing can be asked once for all.
    flood = [
        asyncio.ensure_future(ask(resolver, "hostile", f"s{number % 20}", f"silent-{number}.example"))
        for number in range(200)
    ]
    await asyncio.sleep(0)
    deaf.recv(512)  # The first of them is on its way.
    began = time.monotonic()
    found: Any
    try:
        found = [str(one) for one in await ask(resolver, "other", "main", "listed.example")]
    except Unresolved as error:
        found = str(error)
    took_s = time.monotonic() - began
    for one in flood:
        one.cancel()
    print(json.dumps({"found": found, "took_s": took_s}), flush=True)
    os._exit(0)  # The threads wait for the name server.


if __name__ == "__main__":
    folder = sys.argv[1]
    for name in ("resolv.conf", "hosts", "nsswitch.conf"):
        subprocess.run(["mount", "--bind", f"{folder}/{name}", os.path.realpath(f"/etc/{name}")], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    asyncio.run(main())
