"""An approved command on the host: the very program, in the very folder, limited and ended as inside a sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.errors import HostRefused
from crabpot.host_commands.run import run
from tests.support.runners import OUTPUT
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def test_the_words_reach_the_program_as_they_are_without_a_shell(machine: Any) -> None:
    reply = await machine.run("printf", "%s|", "a b", "$HOME", "`id`", "*", "", "é\udcff")
    assert reply.success
    assert reply.stdout == "a b|$HOME|`id`|*||é�|"


async def test_it_starts_in_the_held_folder_with_the_clean_environment(machine: Any) -> None:
    (machine.workspace / "sub").mkdir()
    assert (await machine.run("pwd", "-P", cwd="sub")).stdout == f"{machine.workspace}/sub\n"
    shown = (await machine.run("env")).stdout.splitlines()
    assert sorted(line.partition("=")[0] for line in shown) == ["HOME", "LANG", "PATH", "TOKEN", "USER"]


async def test_it_holds_no_descriptor_but_its_own_three(machine: Any) -> None:
    machine.script("fds", "#!/bin/sh\nls /proc/$$/fd\n")
    assert (await machine.run("ls", "/proc/self/fd")).stdout.split() == ["0", "1", "2", "3"]  # 3: the listing itself
    shown = (await machine.run("fds")).stdout.split()
    assert [number for number in shown if int(number) < 10] == ["0", "1", "2"]


async def test_exit_codes_signals_and_stderr_come_back(machine: Any) -> None:
    machine.script("fails", "#!/bin/sh\necho no >&2\nexit 7\n")
    machine.script("dies", "#!/bin/sh\nkill -9 $$\n")
    reply = await machine.run("fails")
    assert (reply.success, reply.exit_code, reply.stderr) == (False, 7, "no\n")
    assert (await machine.run("dies")).exit_code == 137


async def test_input_and_output_stream_byte_for_byte(machine: Any) -> None:
    sent, got = os.urandom(OUTPUT // 4), bytearray()

    async def source() -> AsyncIterator[bytes]:
        for start in range(0, len(sent), 999):
            yield sent[start : start + 999]

    async def sink(stream: str, data: bytes) -> None:
        assert stream == "stdout"
        got.extend(data)

    assert (await machine.run("cat", source=source(), sink=sink)).success
    assert bytes(got) == sent


async def test_output_beyond_the_limit_is_cut_and_said_to_be(machine: Any) -> None:
    reply = await machine.run("seq", "100000")
    assert reply.truncated
    assert len(reply.stdout) <= OUTPUT + 100
    assert "bytes cut]" in reply.stdout


async def test_the_time_limit_ends_the_whole_tree_also_what_left_its_session(machine: Any) -> None:
    machine.script("forks", "#!/bin/sh\nsetsid sh -c 'touch one; exec sleep 100271' &\nsleep 100271\n")
    reply = await machine.run("forks", timeout_s=0.5)
    assert reply.error is not None
    assert reply.error[0] == "timeout"
    assert (machine.workspace / "one").exists()
    await until(lambda: not running("100271"))


async def test_a_caller_that_leaves_leaves_nothing_running(machine: Any) -> None:
    machine.script("waits", "#!/bin/sh\ntouch up\nsleep 100272\n")
    task = asyncio.create_task(machine.run("waits"))
    await until((machine.workspace / "up").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not running("100272"))


def running(word: str) -> list[str]:
    """List the processes of the machine that have this word: a guard's own numbers mean nothing outside."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("kind", ["binary", "script"])
async def test_a_program_swapped_between_approval_and_start_is_refused(machine: Any, kind: str) -> None:
    if kind == "binary":
        shutil.copy("/usr/bin/true", machine.programs / "tool")
    else:
        machine.script("tool", "#!/bin/sh\n")
    plan = await machine.plan("tool")
    machine.script("evil", "#!/bin/sh\ntouch ran\n").replace(machine.programs / "tool")
    with pytest.raises(HostRefused, match="replaced after it was shown"):
        await run(plan, timeout_s=5, output_limit=OUTPUT)
    assert not (machine.workspace / "ran").exists()


async def test_a_folder_swapped_between_approval_and_start_is_refused(machine: Any, tmp_path: Path) -> None:
    (machine.workspace / "sub").mkdir()
    (tmp_path / "private").mkdir()
    plan = await machine.plan("touch", "ran", cwd="sub")
    (machine.workspace / "sub").rmdir()
    (machine.workspace / "sub").symlink_to(tmp_path / "private")
    with pytest.raises(HostRefused, match="replaced after it was shown"):
        await run(plan, timeout_s=5, output_limit=OUTPUT)
    assert not (tmp_path / "private" / "ran").exists()


async def test_a_program_started_by_its_descriptor_knows_its_own_path(machine: Any) -> None:
    reply = await machine.run("readlink", "/proc/self/exe")
    assert reply.stdout.strip() == os.path.realpath("/usr/bin/readlink")
    # Python looks for its library beside the name that it was called by.
    found = await machine.run("python3", "-c", "import json, sys; print(sys.executable)")
    assert (found.exit_code, sys.version_info >= (3, 11)) == (0, True)
