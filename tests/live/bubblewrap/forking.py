"""What happens with fork servers in the real tests: run by scenarios.py, each in a process of its own, as one user."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crabpot.backends.bubblewrap.backend import Bubblewrap
from crabpot.backends.bubblewrap.opening import Opening
from crabpot.backends.bubblewrap.render import arguments
from crabpot.backends.bubblewrap.walls import Walls
from crabpot.backends.linux import procs
from crabpot.errors import SandboxUnavailable
from crabpot.spec.spec import Mount
from tests.live.bubblewrap import gateway
from tests.live.bubblewrap.gateway import sandbox
from tests.support.specs import make_spec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from crabpot.backends.bubblewrap.sandbox import BubblewrapSandbox

_MARKER = "told-to-one-sandbox-alone"


@asynccontextmanager
async def serving(state: str) -> AsyncIterator[Bubblewrap]:
    """Have a backend whose fork servers are gone at the end."""
    backend = Bubblewrap(state=state)
    try:
        yield backend
    finally:
        await backend.close()
    assert not gateway.children()


async def server_dies(state: str) -> Any:
    """Kill a fork server beside its sandbox, and open another sandbox."""
    async with serving(state) as backend:
        async with sandbox(backend, make_spec(state, "crabpot-first")) as (box, stream):
            await stream.start("(setsid sleep 5000 &); sleep 5001")
            first = box._server
            os.kill(first.pid, signal.SIGKILL)
            await _ended(box)
        async with sandbox(backend, make_spec(state, "crabpot-second")) as (box, stream):
            return {"answer": await stream.shell("echo here"), "another": box._server is not first}


async def _ended(box: BubblewrapSandbox) -> None:
    for _ in range(1000):
        if not box._lives():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("a sandbox outlived its fork server")


async def two_of_one(state: str, folder: str) -> Any:
    """Open two sandboxes of one fork server, and look for what each has of the other."""
    told = make_spec(state, "crabpot-first", mounts=(Mount(source=folder, target=f"/{_MARKER}", access="ro"),))
    async with (
        serving(state) as backend,
        sandbox(backend, told) as (one, other),
        sandbox(backend, make_spec(state, "crabpot-second")) as (two, stream),
    ):
        seen = {name: procs.namespaces(pid) for name, pid in (("one", one.pid), ("two", two.pid))}
        return {
            "same server": one._server is two._server,
            "shared": [kind for kind in procs.NAMESPACES if seen["one"][kind] == seen["two"][kind]],
            "answers": [await stream.shell("kill -9 -1 2>/dev/null; echo two"), await other.shell("echo one")],
            "told": _holds(one.pid, _MARKER.encode()),
            "not told": _holds(two.pid, _MARKER.encode()),
            "server": _holds(one._server.pid, _MARKER.encode()),
        }


def _holds(pid: int, wanted: bytes) -> bool | None:
    """Return whether a process has it anywhere in its memory; None where that may not be read."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                ends, rights, *_ = line.split()
                start, end = (int(part, 16) for part in ends.split("-"))
                if "w" in rights:
                    memory.seek(start)
                    if wanted in memory.read(end - start):
                        return True
    except PermissionError:
        return None
    return False


async def crowded(state: str) -> Any:
    """Let a fork server have no further process for a while; its sandbox must not notice."""
    async with serving(state) as backend, sandbox(backend, make_spec(state)) as (box, stream):
        before = resource.prlimit(box._server.pid, resource.RLIMIT_NPROC)
        resource.prlimit(box._server.pid, resource.RLIMIT_NPROC, (1, before[1]))
        refused = await _refusal(backend.open(make_spec(state, "crabpot-refused")))
        answer = await stream.shell("echo here")
        resource.prlimit(box._server.pid, resource.RLIMIT_NPROC, before)
        async with sandbox(backend, make_spec(state, "crabpot-again")) as (again, second):
            return {
                "refused": refused,
                "answer": answer + await second.shell("echo again"),
                "same server": again._server is box._server,
            }


async def burst(state: str) -> Any:
    """Open more at once than a process of an ordinary user may have descriptors on their way for."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    async with serving(state) as backend:
        boxes = await asyncio.gather(*(backend.open(make_spec(state, f"crabpot-{one}")) for one in range(120)))
        streams = [gateway.Stream(box) for box in boxes]
        said = await asyncio.gather(*(stream.greet(box) for stream, box in zip(streams, boxes, strict=True)))
        await asyncio.gather(*(box.close() for box in boxes))
    return {"ready": sum(answer["op"] == "ready" for answer in said)}


async def be_killed_after_a_fork(state: str) -> Any:
    """Die by SIGKILL while a fork of this process lives on, with copies of all that it had open."""
    backend = Bubblewrap(state=state)
    box = await backend.open(make_spec(state))
    stream = gateway.Stream(box)
    await stream.greet(box)
    await stream.start("(setsid sleep 5000 &); sleep 5001")
    pids = gateway.below(box._server.pid)
    fork = os.fork()
    if fork == 0:
        for standard in (0, 1, 2):
            os.close(standard)
        signal.alarm(60)
        signal.pause()
    print(json.dumps({"pids": pids, "fork": fork}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


async def be_killed_beside_a_stopped_server(state: str) -> Any:
    """Die by SIGKILL while the fork server is stopped, and so cannot notice."""
    box = await Bubblewrap(state=state).open(make_spec(state))
    os.kill(box._server.pid, signal.SIGSTOP)
    print(json.dumps({"server": box._server.pid}), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


async def too_much(state: str) -> Any:
    """Open what has more descriptors than the kernel sends with one message."""
    names = tuple(f"tool-{number}" for number in range(300))
    async with serving(state) as backend, sandbox(backend, make_spec(state, host_commands=names)) as (box, stream):
        return {"forked": box._server is not None, "shims": await stream.shell("ls /crabpot/bin | wc -l")}


async def another_loop(state: str) -> Any:
    """Open sandboxes of one backend in two event loops, one after the other."""
    backend = Bubblewrap(state=state)

    async def opens() -> int:
        boxes = await asyncio.gather(*(backend.open(make_spec(state, f"crabpot-{one}")) for one in range(30)))
        await asyncio.gather(*(box.close() for box in boxes))
        return len(boxes)

    opened = [await asyncio.to_thread(asyncio.run, opens()) for _ in range(2)]
    await backend.close()
    return {"opened": opened, "children": sorted(gateway.children())}


async def _refusal(opens: Awaitable[BubblewrapSandbox]) -> str:
    try:
        await (await opens).close()
    except SandboxUnavailable as refusal:
        return str(refusal)
    return "opened"


# What a child of the fork server is told otherwise than it should be.
_WRONG: dict[str, Callable[[list[str]], list[str]]] = {
    "no namespaces": lambda words: [word for word in words if word != "isolate="],
    "the host's network": lambda words: [word for word in words if word != "--unshare-net"],
    "capabilities": lambda words: [word for word in words if word != "drop="],
    "no filter": lambda words: [word for word in words if not word.startswith("filter=")],
    "an unknown word": lambda words: ["--share-everything", *words],
    "an unknown order": lambda words: [*words, "share-everything="],
    "a descriptor that was not sent": lambda words: [*words, "join=77"],
    "no order to load": lambda words: words[: words.index("--")],
}


async def told_wrongly(state: str) -> Any:
    """Have children of a fork server told wrong things; the gateway must hear of each, and nothing may be left."""
    found = {}
    async with serving(state) as backend, sandbox(backend, make_spec(state)) as (box, stream):
        machine = await backend.look()
        assert not isinstance(machine.chosen, str)
        user = backend._judge(make_spec(state), machine).choice.user
        for name, edit in _WRONG.items():
            walls = Walls(arguments=lambda *told, edit=edit: edit(arguments(*told)))
            context = replace(machine.context, walls=walls)
            spec = make_spec(state, f"crabpot-{name}")
            found[name] = await _refusal(Opening(spec, context, machine.chosen, user, server=box._server).run({}))
        return {"refused": found, "answer": await stream.shell("echo here"), "left": await _left(box)}


async def _left(box: BubblewrapSandbox) -> int:
    """Return how many sandboxes a fork server has beside one, when those that were ended are gone."""
    for _ in range(500):
        left = [pid for pid in gateway.below(box._server.pid) if pid not in gateway.below(box.pid)]
        if left == [box._server.pid]:
            return 0
        await asyncio.sleep(0.01)
    return len(left) - 1
