"""Promises of `exec` in the foreground: what goes in, what comes out, and how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabpot.proof.conformance.harness import unique_nap
from crabpot.proof.conformance.promises import Chapter, bad, good, same, true
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.proof.conformance.harness import Harness

# ruff: noqa: D103, PLR2004  a promise's name is its sentence, and it states what it expects

promise = Chapter()


@promise
async def an_argv_runs_without_a_shell(harness: Harness) -> None:
    async with harness.open() as box:
        same("words", (await box.run(["printf", "%s|", "a b", "$HOME", "*", ""])).stdout, "a b|$HOME|*||")
        same("its own exit code", (await box.run(["sh", "-c", "exit 3"])).exit_code, 3)
        bad(await box.run(["no-such-program"]), "not_found")
        await box.run("echo text > plain")
        bad(await box.run(["./plain"]), "permission_denied")
        for wrong in ([], [""], ["a\0b"], ["echo", 1]):
            bad(await box.run(wrong), "invalid_arguments")


_SHAPE = ["data", "duration_ms", "error", "exit_code", "id", "place", "stderr", "stdout", "success", "truncated"]


@promise
async def a_result_has_its_shape(harness: Harness) -> None:
    async with harness.open() as box:
        first, second = await box.run("echo out; echo err >&2"), await box.run("true")
        shown = first.as_json()
        same("fields", sorted(shown), _SHAPE)
        same("place", shown["place"], "host" if harness.on_host else "sandbox")
        same("streams", (first.stdout, first.stderr), ("out\n", "err\n"))
        same("end", (first.success, first.exit_code, first.error, first.truncated), (True, 0, None, False))
        true("duration", first.duration_ms > 0)
        true("an id for each call", first.id and first.id != second.id)


@promise
async def a_command_that_fails_is_a_result(harness: Harness) -> None:
    async with harness.open() as box:
        result = await box.run("echo before; echo why >&2; exit 42")
        same("end", (result.success, result.exit_code, result.error), (False, 42, None))
        same("streams", (result.stdout, result.stderr), ("before\n", "why\n"))
        same("a program that is not there", (await box.run("no-such-program-here")).exit_code, 127)


@promise
async def a_signal_is_told_truly(harness: Harness) -> None:
    async with harness.open() as box:
        result = await box.run("kill -TERM $$")
        same("end", (result.success, result.exit_code, result.error), (False, 128 + 15, None))
        same("data", (result.data or {}).get("signal"), "SIGTERM")


@promise
async def shell_text_is_run_by_a_shell(harness: Harness) -> None:
    async with harness.open() as box:
        command = "for n in 1 2 3; do echo $n; done | tac | tr '\\n' ' ' && X=$(printf yes); echo \"$X\""
        same("output", await box.out(command), "3 2 1 yes\n")


@promise
async def a_command_starts_where_it_is_told(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("mkdir -p deep/er; ln -s /usr away")
        home = (await box.out("pwd -P")).strip()
        same("relative", await box.out("pwd -P", cwd="deep/er"), f"{home}/deep/er\n")
        same("absolute", await box.out("pwd -P", cwd=f"{home}/deep"), f"{home}/deep\n")
        bad(await box.run("pwd", cwd="missing"), "not_found")
        bad(await box.run("pwd", cwd="away"), "outside")
        bad(await box.run("pwd", cwd="/proc/self/fd/3"), "outside", "not_found", "permission_denied")


@promise
async def variables_are_added_for_one_call(harness: Harness) -> None:
    async with harness.open() as box:
        same("given", await box.out('echo "$A|$B"', env={"A": "1 2", "B": "é"}), "1 2|é\n")
        same("gone", await box.out('echo "$A|$B"'), "|\n")
        bad(await box.run("true", env={"A=B": "x"}), "invalid_arguments")
        bad(await box.run("true", env={"A": 1}), "invalid_arguments")


@promise
async def standard_input_is_given_or_empty(harness: Harness) -> None:
    async with harness.open() as box:
        same("given", await box.out("cat", stdin="one\ntwo"), "one\ntwo")
        same("large", (await box.out("wc -c", stdin="x" * 2_000_000)).strip(), "2000000")
        same("empty", await box.out("cat; echo end"), "end\n")
        same("not read", await box.out("echo unread", stdin="x" * 500_000), "unread\n")


@promise
async def the_time_limit_ends_the_whole_tree(harness: Harness) -> None:
    async with harness.open() as box:
        nap = unique_nap()
        result = await box.run(f"echo started; (setsid {nap} &); {nap}", timeout=1)
        message = bad(result, "timeout")
        true("the message says the limit", "1 s" in message)
        same("what it printed is kept", (result.stdout, result.exit_code), ("started\n", None))
        same("nothing is left", await box.running(nap), 0)


@promise
async def what_a_command_leaves_behind_ends_with_its_call(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("(setsid sh -c 'sleep 1; echo late > late' >/dev/null 2>&1 &); echo now")
        await asyncio.sleep(1.3)
        bad(await box.call("read", path="late"), "not_found")


@promise
async def wrong_arguments_run_nothing(harness: Harness) -> None:
    async with harness.open(limits={"timeCeiling": 100}) as box:
        bad(await box.run("echo x > ran", timeout=101), "invalid_arguments")
        bad(await box.run("echo x > ran", timeout=-1), "invalid_arguments")
        bad(await box.run("echo x > ran", timeout="soon"), "invalid_arguments")
        bad(await box.run("echo x > ran\0"), "invalid_arguments")
        bad(await box.call("exec"), "invalid_arguments")
        bad(await box.call("exec", command={"echo": "x"}), "invalid_arguments")
        bad(await box.run("echo x > ran", tty={"rows": 0, "cols": 80}), "invalid_arguments")
        bad(await box.call("read", path="ran"), "not_found")


@promise
async def too_much_output_keeps_both_ends(harness: Harness) -> None:
    async with harness.open(limits={"output": "64k"}) as box:
        result = await box.run("echo first; seq 1 200000; echo last")
        good(result)
        same("truncated", result.truncated, True)
        true("both ends", result.stdout.startswith("first\n") and result.stdout.endswith("last\n"))
        true("the cut is marked", "crabpot" in result.stdout and len(result.stdout) < 70_000)


@promise
async def output_without_end_is_ended(harness: Harness) -> None:
    async with harness.open(limits={"output": "64k"}) as box:
        result = await box.run("yes")
        bad(result, "output_limit")
        true("what was kept", 0 < len(result.stdout) < 70_000)
        same("it answers", await box.out("echo alive"), "alive\n")


@promise
async def output_that_is_no_text_is_shown_as_far_as_it_is(harness: Harness) -> None:
    async with harness.open() as box:
        same("output", await box.out("printf 'a\\377b\\0c'"), "a\ufffdb\0c")


@promise
async def output_streams_while_the_command_runs(harness: Harness) -> None:
    heard: list[tuple[str, bytes]] = []
    first = asyncio.Event()

    async def take(stream: str, data: bytes) -> None:
        heard.append((stream, data))
        first.set()

    async def answer() -> AsyncIterator[bytes]:
        await first.wait()
        yield b"heard\n"

    async with harness.open() as box:
        # The command ends only when its first line has come out and an answer has gone in.
        command = "echo question; read answer; echo got $answer; echo why >&2"
        result = await box.call("exec", command=command, timeout=10, streams=Streams(source=answer(), sink=take))
        good(result)
        said = {name: b"".join(data for stream, data in heard if stream == name) for name in ("stdout", "stderr")}
        same("heard", said, {"stdout": b"question\ngot heard\n", "stderr": b"why\n"})
        same("not told twice", (result.stdout, result.stderr), ("", ""))


@promise
async def a_cancelled_call_leaves_nothing_running(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("true")
        call = asyncio.create_task(box.run("echo $$ > pid; echo x; sleep 600; sleep 600"))
        for _ in range(200):
            if (await box.call("read", path="pid")).success:
                break
            await asyncio.sleep(0.02)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        true("the call ended as cancelled", call.cancelled())
        gone = await box.run(
            "for _ in $(seq 100); do kill -0 $(cat pid) 2>/dev/null || exit 0; sleep 0.05; done; exit 1"
        )
        same("its process", gone.exit_code, 0)


@promise
async def many_calls_run_at_once_and_are_not_mixed_up(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("true")
        began = asyncio.get_running_loop().time()
        calls = [box.run(f"sleep 0.5; echo {n}; exit {n}") for n in range(20)]
        results = await asyncio.gather(*calls)
        took = asyncio.get_running_loop().time() - began
        same("answers", [(one.stdout, one.exit_code) for one in results], [(f"{n}\n", n) for n in range(20)])
        true(f"together, not one after the other ({took:.1f} s)", took < 8)


@promise
async def a_busy_call_does_not_hold_up_another(harness: Harness) -> None:
    async with harness.open(limits={"output": "64k"}) as box:
        flood = asyncio.create_task(box.run("head -c 60000000 /dev/zero; sleep 0.2"))
        for n in range(20):
            same("a call beside it", await box.out(f"echo {n}"), f"{n}\n")
        true("the flood ended", (await flood).exit_code == 0)
