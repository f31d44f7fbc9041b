"""Promises of background processes, through `exec` and `process`, and of terminals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabpot.proof.conformance.harness import unique_nap
from crabpot.proof.conformance.promises import Chapter, bad, good, same, true
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from crabpot.proof.conformance.harness import Harness

# ruff: noqa: D103, PLR2004  a promise's name is its sentence, and it states what it expects

promise = Chapter()


@promise
async def a_background_process_outlives_its_call(harness: Harness) -> None:
    async with harness.open() as box:
        process = await box.start("echo up; while read line; do echo got $line; done; echo end; exit 3")
        same("new output", await box.said(process, "up\n"), "up\n")
        good(await box.call("process", action="write", id=process, data="hello\n"))
        same("only what is new", await box.said(process, "hello\n"), "got hello\n")
        listed = good(await box.call("process", action="list"))["processes"]
        same("list", [(one["id"], one["running"], one["exit_code"]) for one in listed], [(process, True, None)])
        true("list tells the command", listed[0]["command"].startswith("echo up"))
        good(await box.call("process", action="write", id=process, data=None))
        waited = await box.call("process", action="wait", id=process)
        ended = good(waited)
        same("end", (ended["running"], ended["exit_code"], waited.stdout), (False, 3, "end\n"))
        same("not listed once told", good(await box.call("process", action="list"))["processes"], [])
        same("told the same again", good(await box.call("process", action="poll", id=process)), ended)


@promise
async def a_background_server_is_reached_from_another_call(harness: Harness) -> None:
    server = (
        'exec python3 -I -c \'import http.server as h; s = h.HTTPServer(("127.0.0.1", 0), h.SimpleHTTPRequestHandler); '
        "print(s.server_port, flush=True); s.serve_forever()'"
    )
    async with harness.open() as box:
        await box.call("write", path="page.txt", content="served")
        process = await box.start(server)
        port = (await box.said(process, "\n")).strip()
        page = f"http://127.0.0.1:{port}/page.txt"
        fetch = f"import urllib.request as u; print(u.urlopen('{page}', timeout=5).read().decode())"
        same("fetched", await box.out(f'python3 -I -c "{fetch}"'), "served\n")
        killed = good(await box.call("process", action="kill", id=process))
        same("killed", (killed["running"], killed["exit_code"]), (False, 128 + 15))
        true("no longer reached", (await box.run(f'python3 -I -c "{fetch}"')).exit_code != 0)


@promise
async def a_kill_takes_the_whole_tree(harness: Harness) -> None:
    async with harness.open() as box:
        nap = unique_nap()
        process = await box.start(f"trap '' TERM; (setsid {nap} &); echo up; while :; do {nap}; done")
        await box.said(process, "up\n")
        true("it runs", await box.running(nap) > 0)
        good(await box.call("process", action="kill", id=process))
        same("left", await box.running(nap), 0)


@promise
async def waiting_ends_with_its_own_time_limit(harness: Harness) -> None:
    async with harness.open() as box:
        process = await box.start("sleep 600")
        waited = await box.call("process", action="wait", id=process, timeout=0.5)
        same("still running", good(waited)["running"], True)


@promise
async def a_process_that_is_none_is_refused(harness: Harness) -> None:
    async with harness.open() as box:
        bad(await box.call("process", action="poll", id="p99"), "not_found")
        bad(await box.call("process", action="poll"), "not_found", "invalid_arguments")
        bad(await box.call("process", action="dance", id="p1"), "invalid_arguments")


@promise
async def a_background_process_may_print_without_end(harness: Harness) -> None:
    async with harness.open(limits={"output": "64k"}) as box:
        process = await box.start("exec yes")
        for _ in range(20):
            polled = await box.call("process", action="poll", id=process)
            good(polled)
            true("bounded", len(polled.stdout) < 70_000)
        good(await box.call("process", action="kill", id=process))


@promise
async def what_a_detached_command_leaves_outlives_its_call(harness: Harness) -> None:
    async with harness.open() as box:
        nap = unique_nap()
        left = await box.run(f"(echo late; exec {nap}) & echo started", detach=True)
        process = good(left)["process"]
        same("its own end", left.exit_code, 0)
        true("another call ends, it does not", (await box.run("true")).success and await box.running(nap) > 0)
        listed = good(await box.call("process", action="list"))["processes"]
        same("listed", [(one["id"], one["running"]) for one in listed], [(process, True)])
        good(await box.call("process", action="kill", id=process))
        same("killed", await box.running(nap), 0)
        same("nothing left, nothing listed", (await box.run("echo done", detach=True)).data, None)


@promise
async def a_detached_command_is_bound_by_its_time_limit(harness: Harness) -> None:
    async with harness.open() as box:
        nap = unique_nap()
        bad(await box.run(f"{nap} & {nap}", detach=True, timeout=0.5), "timeout")
        same("left", await box.running(nap), 0)


@promise
async def a_command_gets_a_terminal_of_its_size(harness: Harness) -> None:
    async with harness.open() as box:
        result = await box.run(
            "stty size; test -t 0 && test -t 1 && echo tty; echo $TERM", tty={"rows": 33, "cols": 77}
        )
        good(result)
        size, is_tty, term = result.stdout.replace("\r", "").split("\n")[:3]
        same("size", size, "33 77")
        same("it is one", is_tty, "tty")
        true("TERM", term)
        same("without it there is none", (await box.run("test -t 0 || test -t 1")).exit_code, 1)


@promise
async def a_terminal_takes_a_new_size_and_keys(harness: Harness) -> None:
    sizes: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    heard = bytearray()

    async def take(_stream: str, data: bytes) -> None:
        if not heard:
            sizes.put_nowait((50, 132))
        heard.extend(data)

    command = (
        "echo ready; for _ in $(seq 100); do [ \"$(stty size)\" = '50 132' ] && echo resized && exit; sleep 0.05; done"
    )
    async with harness.open() as box:
        streams = Streams(sink=take, resizes=sizes)
        good(await box.call("exec", command=command, tty={"rows": 24, "cols": 80}, timeout=20, streams=streams))
        true("resized", b"resized" in heard)
