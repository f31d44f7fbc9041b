"""What live sandboxes cost a gateway, an API server and a node, for docs/scale.md: `python -m bench.scale [COUNT…]`.

On the cluster of scripts/cluster, with its KUBECONFIG, and on nobody else's. Bytes are all that passed the link to
it, so nothing else may talk to that cluster meanwhile. Memory is each process's proportional share.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from crabpot import app
from crabpot.model import Place

if TYPE_CHECKING:
    from crabpot.gateway import Gateway

_TEXT = """{ agents: { defaults: { sandbox: { backend: "kubernetes", kubernetes: { inet: "refuse" },
             limits: { memory: "128m", cpus: 1 } } } },
             gateway: { maxSandboxes: 500, maxSandboxesPerAgent: 500 } }"""
_IDLE_S = 30.0
_CALLS = 50
_LINK = Path("/sys/class/net/crabpot-k8s/statistics")


def _moved() -> int:
    return sum(int((_LINK / name).read_text(encoding="ascii")) for name in ("rx_bytes", "tx_bytes"))


def _share_mb(process: Path) -> float:
    rollup = (process / "smaps_rollup").read_text(encoding="ascii")
    found = re.search(r"^Pss: +([0-9]+) kB$", rollup, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _part(process: Path) -> str | None:
    """Return which part of the cluster a process belongs to."""
    name = (process / "comm").read_text(encoding="utf-8").strip()
    if name.startswith("containerd-shim"):
        return "shims_mb"
    if name in {"kube-apiserver", "kubelet", "containerd", "etcd"}:
        return f"{name}_mb"
    return "pods_mb" if "/kubepods/" in (process / "cgroup").read_text(encoding="utf-8") else None


def _memory() -> dict[str, float]:
    """Return the memory of this process and of each part of the cluster."""
    held = {"gateway_mb": _share_mb(Path("/proc/self"))}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if part := _part(process):
                held[part] = held.get(part, 0.0) + _share_mb(process)
        except OSError:
            continue  # It ended meanwhile.
    return {part: round(amount, 1) for part, amount in held.items()}


async def _exec_p50_ms(gateway: Gateway, session: str) -> float:
    took = []
    for _ in range(_CALLS):
        began = time.perf_counter()
        await gateway.call(session, "exec", command="true")
        took.append(time.perf_counter() - began)
    return round(sorted(took)[_CALLS // 2] * 1000, 2)


async def _grow(gateway: Gateway, alive: int, count: int) -> dict[str, float]:
    """Open as many at once as are missing, and return what is seen then."""
    began, before = time.monotonic(), _moved()
    sessions = [f"agent:main:scale-{n}" for n in range(alive, count)]
    results = await asyncio.gather(*(gateway.call(one, "exec", command="true") for one in sessions))
    if failed := [one.error for one in results if not one.success]:
        raise SystemExit(f"{len(failed)} of {len(sessions)} failed: {failed[0]}")
    opened_s, opened = time.monotonic() - began, _moved()
    await asyncio.sleep(_IDLE_S)
    idle = _moved()
    p50_ms = await _exec_p50_ms(gateway, sessions[-1])
    return {
        "alive": count,
        "opened": len(sessions),
        "opened_s": round(opened_s, 1),
        "opening_bytes_each": (opened - before) // len(sessions),
        "idle_bytes_per_s": round((idle - opened) / _IDLE_S),
        "call_bytes": (_moved() - idle) // _CALLS,
        "exec_p50_ms": p50_ms,
        "descriptors": len(os.listdir("/proc/self/fd")),
        **_memory(),
    }


async def main(counts: list[int]) -> None:
    """Print one line of JSON for none, and one for each number of live sandboxes."""
    with tempfile.TemporaryDirectory(prefix="crabpot-scale-") as state:
        gateway = app.start(config=None, state=state, environ=os.environ).gateway(_TEXT)
        alive = 0
        try:
            print(json.dumps({"alive": 0, "descriptors": len(os.listdir("/proc/self/fd")), **_memory()}), flush=True)
            for count in counts:
                print(json.dumps(await _grow(gateway, alive, count)), flush=True)
                alive = count
            for n in range(alive):
                await gateway.execution.fleet.stop((Place.SANDBOX, f"agent:main:scale-{n}"))
        finally:
            await gateway.close()


if __name__ == "__main__":
    asyncio.run(main([int(word) for word in sys.argv[1:]] or [1, 10, 50, 100]))
