"""A person's terminal in a box of a program: its socket is that person's alone, and goes with the box."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import crabpot
from crabpot.doors.python.shells import Shells, connect
from tests.unit.doors.test_python import sandboxed_or_skip

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOBODY = 65534
SRC = Path(crabpot.__file__).parents[1]

# Opens a shell's socket, says where, and waits to be killed.
LEFT_BEHIND = """
import asyncio, sys
import crabpot
from crabpot.doors.python.shells import Shells
async def main():
    box = await crabpot.sandbox(state=sys.argv[1])
    await box.write("kept", "x")
    print(await Shells(box, box.state).open(), flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


GO_AND_CONNECT = """
import os, socket, sys
os.chdir(sys.argv[1])
print("there", flush=True)
socket.socket(socket.AF_UNIX).connect(sys.argv[2])
"""


def path_of(command: str) -> str:
    """Return the socket of the command that connects a terminal."""
    return shlex.split(command)[-1]


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[tuple[crabpot.Box, Shells]]:
    """Open a box, and have shells ready for it."""
    async with crabpot.sandbox(state=str(tmp_path / "state")) as box:
        sandboxed_or_skip(await box.call("exec", command="true"))
        shells = Shells(box, box.state)
        try:
            yield box, shells
        finally:
            shells.close()


async def test_only_its_user_can_open_the_socket_whatever_the_umask(tmp_path) -> None:
    async with opened(tmp_path) as (_, shells):
        before = os.umask(0)
        try:
            found = path_of(await shells.open())
        finally:
            os.umask(before)
        assert stat.S_IMODE(os.stat(found).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(found)).st_mode) == 0o700
        assert os.stat(found).st_uid == os.geteuid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_cannot_connect_even_where_the_folders_are_open() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder)) as (_, shells):
            found = Path(path_of(await shells.open()))
            for open_to_all in (Path(folder), *found.parents[:2]):
                open_to_all.chmod(0o755)
            done = await asyncio.to_thread(attempted, found, user=NOBODY, group=NOBODY, extra_groups=[])
            assert done.stdout == "there\n"
            assert "PermissionError" in done.stderr
            assert "PermissionError" not in (await asyncio.to_thread(attempted, found)).stderr


def attempted(found: Path, **as_whom: Any) -> subprocess.CompletedProcess[str]:
    """Go to the socket's folder, say so, and connect."""
    return subprocess.run(
        ["/usr/bin/python3", "-c", GO_AND_CONNECT, found.parent, found.name],
        capture_output=True,
        text=True,
        check=False,
        **as_whom,
    )


async def test_no_sandbox_reaches_the_socket(tmp_path) -> None:
    async with opened(tmp_path) as (box, shells), crabpot.sandbox(state=box.state) as other:
        found = Path(path_of(await shells.open()))
        for inside in (box, other):
            done = await inside.exec(["python3", "-c", GO_AND_CONNECT, str(found.parent), found.name], text=True)
            assert (done.exit_code, done.stdout, "FileNotFoundError" in done.stderr) == (1, "", True)


async def test_what_is_planted_in_its_place_gets_nothing_of_what_a_person_types(tmp_path, capsys) -> None:
    async with opened(tmp_path) as (_, shells):
        found = path_of(await shells.open())
        with socket.socket(socket.AF_UNIX) as trap:
            trap.bind(str(tmp_path / "trap"))
            trap.listen()
            trap.setblocking(False)
            os.unlink(found)
            os.symlink(tmp_path / "trap", found)
            assert await asyncio.to_thread(connect, found) == 1
            with pytest.raises(BlockingIOError):
                trap.accept()
        assert "no longer running" in capsys.readouterr().err


async def test_a_link_planted_before_leads_it_nowhere(tmp_path) -> None:
    async with opened(tmp_path) as (box, _):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir(mode=0o777)
        (Path(box.state) / "shells").symlink_to(elsewhere)
        shells = Shells(box, box.state)
        with pytest.raises((crabpot.CrabpotError, OSError)):
            await shells.open()
        assert list(elsewhere.iterdir()) == []


async def test_nothing_is_left_after_the_end(tmp_path) -> None:
    async with opened(tmp_path) as (box, shells):
        command = await shells.open()
        assert os.path.exists(path_of(command))
        shells.close()
        shells.close()
        assert os.listdir(os.path.join(box.state, "shells")) == []
        late = await asyncio.to_thread(
            subprocess.run,
            shlex.split(command),
            env={**os.environ, "PYTHONPATH": str(SRC)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (late.returncode, late.stderr) == (1, "crabpot: the sandbox is no longer running\n")


async def test_the_socket_of_a_killed_program_goes_with_the_next_program(tmp_path) -> None:
    async with opened(tmp_path):
        state = tmp_path / "killed"
        command = [sys.executable, "-c", LEFT_BEHIND, str(state)]
        env = {**os.environ, "PYTHONPATH": str(SRC)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as program:
            assert program.stdout is not None
            found = path_of(await asyncio.to_thread(program.stdout.readline))
            assert stat.S_ISSOCK(os.stat(found).st_mode)
            program.send_signal(signal.SIGKILL)
        async with crabpot.sandbox(state=str(state)) as after:
            assert (await after.exec("true")).success
            assert os.listdir(state / "shells") == []
