"""Write into an agent's workspace by every tool that writes, as whoever runs this; prints who owns what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from crabpot import app

PATCH = "*** Begin Patch\n*** Add File: by-patch\n+x\n*** End Patch\n"


async def main(backend: str, folder: str) -> dict[str, list[int]]:
    """Return uid and gid of each file and folder."""
    workspace = f"{folder}/agent"
    sandbox = {"backend": backend, "workspace": "rw"}
    text = json.dumps({"agents": {"defaults": {"workspace": workspace, "sandbox": sandbox}}})
    gateway = app.start(config=None, state=f"{folder}/state-{backend}", environ=os.environ).gateway(text)
    try:
        for tool, args in (
            ("write", {"path": f"{backend}/by-write/file", "content": "one"}),
            ("edit", {"path": f"{backend}/by-write/file", "old": "one", "new": "two"}),
            ("apply_patch", {"patch": PATCH.replace("by-patch", f"{backend}/by-patch")}),
            ("exec", {"command": f"mkdir {backend}/by-shell && echo x > {backend}/by-shell/file"}),
            # Each can change what the other made.
            ("write", {"path": f"{backend}/by-shell/file", "content": "changed"}),
            ("exec", {"command": f"echo more >> {backend}/by-write/file"}),
        ):
            result = await gateway.call("agent:main:main", tool, args)
            assert result.success, (tool, result)
    finally:
        await gateway.close()
    found = {}
    for place, folders, files in os.walk(f"{workspace}/{backend}"):
        for name in (*folders, *files):
            status = os.stat(os.path.join(place, name))
            found[name if place.endswith(backend) else f"{os.path.basename(place)}/{name}"] = [
                status.st_uid,
                status.st_gid,
            ]
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
