"""Promises about limits: each holds, and the error that it causes names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.proof.conformance.promises import Chapter, bad, good, same, true

if TYPE_CHECKING:
    from crabpot.proof.conformance.harness import Harness

# ruff: noqa: D103  a promise's name is its sentence

promise = Chapter(sandbox_only=True)

_MEMORY_HOG = "exec python3 -I -c 'x = [bytearray(1 << 20) for _ in range(200)]'"
_FORK_MANY = "i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i + 1)); done; exit 9"


@promise
async def the_memory_limit_is_named(harness: Harness) -> None:
    async with harness.open(limits={"memory": "96m"}) as box:
        result = await box.run(_MEMORY_HOG)
        same("the command", result.success, False)
        if await harness.degrades(box, "limits.memory") and result.error is None:
            # Each process is limited on its own: Python gets the error, and reports it.
            true("told by the program", "MemoryError" in result.stderr)
        else:
            message = bad(result, "memory_limit")
            true("the message says the limit", "96" in message)
        same("it answers", await box.out("echo alive"), "alive\n")


@promise
async def the_process_limit_is_named(harness: Harness) -> None:
    async with harness.open(limits={"pids": 32}) as box:
        result = await box.run(_FORK_MANY, timeout=20)
        same("the command", result.success, False)
        if result.error is not None:
            message = bad(result, "process_limit")
            true("the message says the limit", "32" in message)
        else:
            true("told by the shell", "fork" in result.stderr.lower())
        same("it answers", await box.out("echo alive"), "alive\n")


@promise
async def a_process_limit_that_was_hit_is_not_blamed_for_what_fails_later(harness: Harness) -> None:
    async with harness.open(limits={"pids": 32}) as box:
        await box.run(_FORK_MANY, timeout=20)
        later = await box.run("exit 7")
        same("a later failure", (later.exit_code, later.error), (7, None))


@promise
async def a_memory_limit_that_was_hit_is_not_blamed_for_what_fails_later(harness: Harness) -> None:
    async with harness.open(limits={"memory": "96m"}) as box:
        await box.run(_MEMORY_HOG)
        killed = await box.run("kill -KILL $$")
        same("a later kill", (killed.exit_code, killed.error), (128 + 9, None))


@promise
async def the_file_size_limit_is_named(harness: Harness) -> None:
    async with harness.open(limits={"fileSize": "1m"}) as box:
        message = bad(await box.call("write", path="large", content="x" * 2_000_000), "disk_limit")
        true("the message says the file", "large" in message)
        same("no part of it is left", (await box.out("ls -A")).split(), [])
        result = await box.run("head -c 2000000 /dev/zero > large")
        same("a program is stopped", (result.success, (await box.out("stat -c %s large")).strip()), (False, "1048576"))


@promise
async def a_full_temporary_folder_is_named(harness: Harness) -> None:
    async with harness.open(limits={"tmp": "1m"}) as box:
        bad(await box.call("write", path="/tmp/large", content="x" * 2_000_000), "disk_limit")  # noqa: S108  inside
        result = await box.run("head -c 2000000 /dev/zero > /tmp/large")
        true("a program is told", not result.success and "space" in result.stderr.lower())
        good(await box.call("write", path="elsewhere", content="x" * 2_000_000))


@promise
async def the_limit_of_open_files_holds(harness: Harness) -> None:
    async with harness.open(limits={"openFiles": 64}) as box:
        same("limit", (await box.out("ulimit -n; ulimit -Hn")).split(), ["64", "64"])
        same("no core dumps", (await box.out("ulimit -c; ulimit -Hc")).split(), ["0", "0"])
        for n in range(100):
            good(await box.call("write", path=f"file-{n}", content="x"))
        same("the runner has enough", await box.out("ls | wc -l"), "100\n")


@promise
async def the_time_limit_of_the_configuration_holds(harness: Harness) -> None:
    async with harness.open(limits={"timeLimit": 1, "timeCeiling": 5}) as box:
        message = bad(await box.run("sleep 600"), "timeout")
        true("the message says the limit", "1 s" in message)
        same("a call may ask for more", await box.out("sleep 1.2; echo done", timeout=4), "done\n")
