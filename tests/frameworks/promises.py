"""What every provider promises, whichever framework it is for: refusals are read, and nothing hangs or is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from tests.frameworks.providers import named

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.frameworks.providers import Provider

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240.0

ASK_THE_NETWORK = """python3 -c '
import urllib.error, urllib.request
try:
    urllib.request.urlopen("http://not-listed.example/")
except urllib.error.HTTPError as error:
    print(error.read().decode())
'"""
REFUSALS = {
    "a command that would leave": ({"host_commands": ["git"]}, "git status", "no operator is connected"),
    "a host that is not listed": (
        {"network": {"allow": ["listed.example:443"], "ask": True}},
        ASK_THE_NETWORK,
        "the connection to not-listed.example:80 was refused",
    ),
    "a tool that is denied": ({"tools": {"deny": ["exec"]}}, "echo here", "tools.deny"),
}
ODD = [
    "odd \n 'name' \" $(id) `id` ; & | * ? [x] ~",
    "-rf",
    "--help",
    "ü ñ 漢字 \u202e \u200b",
    "\x01\x1b[31m\x7f",
    "a" * 255,
    "back\\slash",
    " ",
]
OUTSIDE = ["../../../../etc/passwd", "/etc/passwd", "/proc/1/root/etc/passwd", "/crabpot/planted", "/usr/bin/planted"]


class Promises:
    """Subclassed in each framework's folder, which it names."""

    name: ClassVar[str]
    # Whether the framework finds a sandbox again, so that its files stay.
    kept: ClassVar[bool] = False
    # Whether a run in it can be cancelled; where its methods wait in a thread, only a signal can.
    cancelled: ClassVar[bool] = True
    # What is refused before there is an agent, because the sandbox needs it to begin with.
    at_once: ClassVar[tuple[str, ...]] = ()

    def inside(self, tmp_path: Path, do: Callable[[Provider], Any], **settings: Any) -> None:
        """Run a coroutine with a sandbox."""

        async def opened() -> None:
            async with (
                asyncio.timeout(PATIENCE_S),
                named(self.name).ours(state=str(tmp_path / "state"), **settings) as it,
            ):
                await do(it)

        asyncio.run(opened())

    @pytest.mark.parametrize("refused", REFUSALS)
    def test_a_refusal_is_something_that_the_model_reads(self, refused: str, tmp_path: Path) -> None:
        settings, command, reason = REFUSALS[refused]
        state = str(tmp_path / "state")
        if refused in self.at_once:
            with pytest.raises(Exception, match=reason):
                named(self.name).said(command, state=state, **settings)
        else:
            assert reason in named(self.name).said(command, state=state, **settings)

    def test_a_path_outside_is_refused(self, tmp_path: Path) -> None:
        async def do(box: Provider) -> None:
            for path in OUTSIDE:
                if box.write is not None:
                    with pytest.raises(Exception, match=r"."):
                        await box.write(path, b"planted")
            # The sandbox's own, not this machine's.
            assert "planted" not in await box.run("cat /etc/passwd")
            assert str(tmp_path) not in await box.run(f"ls -a {tmp_path} /root 2>/dev/null")

        self.inside(tmp_path, do)
        assert "planted" not in Path("/etc/passwd").read_text(encoding="utf-8")

    def test_a_name_of_odd_characters_is_just_a_name(self, tmp_path: Path) -> None:
        async def do(box: Provider) -> None:
            for number, odd in enumerate(ODD):
                if box.write is not None:
                    await box.write(f"{number}/{odd}", odd.encode())
                if box.read is not None:
                    assert await box.read(f"{number}/{odd}") == odd.encode()
                quoted = "'" + odd.replace("'", "'\\''") + "'"
                counted = await box.run(f"mkdir -p {number} && cd {number} && printf x > ./{quoted} && ls | wc -c")
                assert int(counted) == len(odd.encode()) + 1

        self.inside(tmp_path, do)

    def test_a_sandbox_that_died_is_told_and_the_next_call_has_another(self, tmp_path: Path) -> None:
        async def do(box: Provider) -> None:
            marker = unique()
            running = asyncio.create_task(box.run(f"sleep {marker}"))
            await until(lambda: sleeping(marker))
            for children in Path("/proc/self/task").glob("*/children"):
                for pid in children.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
            (told,) = await asyncio.gather(running, return_exceptions=True)
            assert "sandbox" in str(told) or "kernel" in str(told)
            assert "again" in await box.run("echo again")

        self.inside(tmp_path, do)

    def test_a_cancelled_run_ends_what_it_started(self, tmp_path: Path) -> None:
        async def do(box: Provider) -> None:
            marker = unique()
            running = asyncio.create_task(box.run(f"sleep {marker}"))
            await until(lambda: sleeping(marker))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await until(lambda: not sleeping(marker))
            assert "again" in await box.run("echo again")

        if self.cancelled:
            self.inside(tmp_path, do)
        else:
            self.ended(tmp_path, signal.SIGINT)

    def test_nothing_is_left_of_a_program_that_was_killed(self, tmp_path: Path) -> None:
        self.ended(tmp_path, signal.SIGKILL)

    def ended(self, tmp_path: Path, by: signal.Signals) -> None:
        """Have a program ended while a command of its runs, and see that both are gone, and its files."""
        marker, state = unique(), tmp_path / "state"
        command = [sys.executable, "-m", "tests.frameworks.promises", self.name, str(state)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        # Without an event loop there is nothing to cancel, and the methods wait in the program's own thread.
        options = [] if self.cancelled else ["waiting"]
        with subprocess.Popen(
            [*command, f"sleep {marker}", *options], env=env, stderr=subprocess.PIPE, text=True
        ) as program:
            asyncio.run(until(lambda: sleeping(marker) or program.poll() is not None))
            assert program.poll() is None, program.communicate()[1]
            program.send_signal(by)
            program.communicate(timeout=PATIENCE_S)
        asyncio.run(until(lambda: not sleeping(marker)))
        done = subprocess.run([*command, "echo again"], env=env, capture_output=True, text=True, check=False)
        assert "again" in done.stdout, done.stderr
        assert self.kept or os.listdir(state / "sandboxes") == []


def unique() -> str:
    """Return a time to sleep that nobody else sleeps."""
    return f"1000.{int.from_bytes(os.urandom(6))}"


def sleeping(marker: str) -> bool:
    """Return whether somebody sleeps for that time, in whichever namespace."""
    wanted = f"sleep\0{marker}\0".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == wanted:
                return True
        except OSError:
            continue
    return False


async def until(condition: Callable[[], object]) -> None:
    """Wait for something to be so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.05)


async def program(name: str, state: str, command: str, *options: str) -> None:
    """Run a command in a sandbox of a framework."""
    async with named(name).ours(state=state, **dict.fromkeys(options, True)) as box:
        print(await box.run(command))


if __name__ == "__main__":
    # Control-C ends it as it would end a program without an event loop.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    asyncio.run(program(*sys.argv[1:]))
