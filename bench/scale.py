"""What one gateway costs for each live sandbox on a cluster, for docs/scale.md: `python -m bench.scale [COUNT…]`.

On the cluster that KUBECONFIG names. Memory and descriptors are this process's own. Bytes are those of its open
connections, in both directions: what a closed one moved is not counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from crabpot import app
from crabpot.model import Place

_TEXT = """{ agents: { defaults: { sandbox: { backend: "kubernetes", kubernetes: { inet: "refuse" },
             limits: { memory: "128m", cpus: 1 } } } },
             gateway: { maxSandboxes: 500, maxSandboxesPerAgent: 500 } }"""
_IDLE_S = 30.0


def _own() -> dict[str, float]:
    """Return the memory that this process alone has, its descriptors, and the bytes on its TCP connections."""
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    private = sum(int(n) for n in re.findall(r"^Private_(?:Clean|Dirty): +([0-9]+) kB$", rollup, re.MULTILINE))
    mine = f"pid={os.getpid()},"
    shown = subprocess.run(["ss", "-tinpOH"], capture_output=True, text=True, check=True).stdout
    lines = [line for line in shown.splitlines() if mine in line]
    moved = sum(int(n) for line in lines for n in re.findall(r"bytes_(?:sent|received):([0-9]+)", line))
    return {
        "private_mb": private / 1024,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "connections": len(lines),
        "bytes": moved,
    }


async def main(counts: list[int]) -> None:
    """Print one line of JSON for each number of live sandboxes."""
    with tempfile.TemporaryDirectory(prefix="crabpot-scale-") as state:
        gateway = app.start(config=None, state=state, environ=os.environ).gateway(_TEXT)
        try:
            alive = 0
            for count in counts:
                began, before = time.monotonic(), _own()
                sessions = [f"agent:main:scale-{n}" for n in range(alive, count)]
                results = await asyncio.gather(*(gateway.call(one, "exec", command="true") for one in sessions))
                failed = [one.error for one in results if not one.success]
                if failed:
                    print(json.dumps({"count": count, "failed": len(failed), "first": str(failed[0])}), flush=True)
                    return
                opened_s, opened = time.monotonic() - began, _own()
                await asyncio.sleep(_IDLE_S)
                idle = _own()
                took = []
                for _ in range(50):
                    start = time.perf_counter()
                    await gateway.call(f"agent:main:scale-{count - 1}", "exec", command="true")
                    took.append(time.perf_counter() - start)
                print(
                    json.dumps(
                        {
                            "alive": count,
                            "opened": count - alive,
                            "opened_s": round(opened_s, 1),
                            "exec_p50_ms": round(sorted(took)[25] * 1000, 2),
                            "bytes_while_opening": opened["bytes"] - before["bytes"],
                            "idle_bytes_per_s": round((idle["bytes"] - opened["bytes"]) / _IDLE_S),
                            **idle,
                        }
                    ),
                    flush=True,
                )
                alive = count
            for n in range(alive):
                await gateway.execution.fleet.stop((Place.SANDBOX, f"agent:main:scale-{n}"))
        finally:
            await gateway.close()


if __name__ == "__main__":
    asyncio.run(main([int(word) for word in sys.argv[1:]] or [1, 10, 50, 100]))
