"""Run one peer in the peer's own interpreter: standard library only. A line of JSON in, a line of JSON out.

    python driver.py ADAPTER.py
    {"do": "start"}                  {"version": "…", "can": ["open", "exec", …]}
    {"do": "exec", "times": 5}       {"seconds": [0.07, …]}
    {"do": "stop"}                   {}

What fails is answered as {"why": "…"}. An adapter is a class `Adapter` whose methods `open`, `exec`, `read` and
`write` are measured where it has them; `open` returns what `shut` then ends, unmeasured.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import sys
import time
from typing import Any

MEASURED = ("open", "exec", "read", "write")


def load(path: str) -> Any:
    """Load an adapter from its file: the peer's interpreter knows nothing of our package."""
    spec = importlib.util.spec_from_file_location("adapter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Adapter()


async def answer(adapter: Any, order: dict[str, Any]) -> dict[str, Any]:
    """Carry out one order."""
    what = order["do"]
    if what == "start":
        version = await _called(adapter.start)
        return {"version": str(version), "can": [name for name in MEASURED if hasattr(adapter, name)]}
    if what == "stop":
        await _called(adapter.stop)
        return {}
    return {"seconds": [await _seconds(adapter, what) for _ in range(order["times"])]}


async def _seconds(adapter: Any, what: str) -> float:
    began = time.perf_counter()
    made = await _called(getattr(adapter, what))
    took = time.perf_counter() - began
    if what == "open" and hasattr(adapter, "shut"):
        await _called(adapter.shut, made)
    return took


async def _called(function: Any, *arguments: Any) -> Any:
    made = function(*arguments)
    return await made if inspect.isawaitable(made) else made


async def main(path: str) -> None:
    """Answer until the input ends; whoever asked may have died."""
    # What a peer prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    adapter = load(path)
    kept = False
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        kept = order["do"] != "stop"
        said = await _answered(adapter, order)
        answers.write(json.dumps(said) + "\n")
        answers.flush()
    if kept:
        await _answered(adapter, {"do": "stop"})


async def _answered(adapter: Any, order: dict[str, Any]) -> dict[str, Any]:
    try:
        return await answer(adapter, order)
    except Exception as error:  # noqa: BLE001  whatever a peer fails with is its reason
        return {"why": " ".join(f"{type(error).__name__}: {error}".split())[:300]}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
