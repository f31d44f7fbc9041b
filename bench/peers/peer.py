"""One peer: its environment, its process, and how it is asked for measurements."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DRIVER = os.path.join(os.path.dirname(__file__), "driver.py")
_START_S, _ANSWER_S, _INSTALL_S = 60.0, 60.0, 600.0


class PeerFailed(CrabpotError):
    """A peer cannot be installed, or cannot run here; the message is its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What it is called, what it needs, and what it does that Crabpot does not."""

    name: str
    file: str
    packages: tuple[str, ...]
    npm: tuple[str, ...]
    beyond: str

    def home(self, cache: str) -> str:
        """Return the folder of its environment."""
        return os.path.join(cache, os.path.basename(self.file).removesuffix(".py"))

    def installed(self, cache: str) -> bool:
        """Return whether what it needs is installed, in the requested versions."""
        try:
            with open(os.path.join(self.home(cache), "installed"), encoding="utf-8") as stream:
                return stream.read() == self._wanted()
        except OSError:
            return not self._wanted()

    def _wanted(self) -> str:
        return "\n".join((*self.packages, *self.npm))

    async def install(self, cache: str) -> None:
        """Make its environment, in its own folder and nowhere else."""
        if self.installed(cache):
            return
        home = self.home(cache)
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        if self.packages:
            await _command(sys.executable, "-m", "venv", home)
            pip = (f"{home}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
            await _command(*pip, *self.packages)
        if self.npm:
            await _command("npm", "install", "--prefix", home, "--no-fund", "--no-audit", *self.npm)
        with open(f"{home}/installed", "w", encoding="utf-8") as stream:
            stream.write(self._wanted())

    async def start(self, cache: str, environ: Mapping[str, str]) -> Running:
        """Start its process and what it keeps."""
        if not self.installed(cache):
            raise PeerFailed("it is not installed; `make bench` does that")
        home = self.home(cache)
        python = f"{home}/bin/python" if self.packages else sys.executable
        process = await asyncio.create_subprocess_exec(
            python,
            "-I",
            _DRIVER,
            self.file,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**environ, "CRABPOT_BENCH_HOME": home},
            limit=1 << 20,
            # Ctrl-C is for us; we then let it remove what it made.
            start_new_session=True,
        )
        running = Running(self, process)
        try:
            said = await running.ask({"do": "start"}, _START_S)
        except BaseException:
            await running.end()
            raise
        running.version, running.can = said["version"], tuple(said["can"])
        return running


class Running:
    """A peer that was started."""

    def __init__(self, peer: Peer, process: asyncio.subprocess.Process) -> None:
        self.peer = peer
        self.version = ""
        self.can: tuple[str, ...] = ()
        self._process = process

    async def measure(self, what: str, times: int) -> list[float]:
        """Let it do one thing this many times, one after the other."""
        return list((await self.ask({"do": what, "times": times}, _ANSWER_S))["seconds"])

    async def ask(self, order: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send an order and wait for the answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps(order).encode() + b"\n")
            line = await asyncio.wait_for(stdout.readline(), timeout_s)
            said: dict[str, Any] = json.loads(line)
        except (TimeoutError, OSError, ValueError) as error:
            raise PeerFailed(f"{order['do']}: no answer within {timeout_s:g} s ({error or 'it ended'})") from None
        if "why" in said:
            raise PeerFailed(said["why"])
        return said

    async def end(self) -> None:
        """Let it remove what it made, then end its process."""
        if self._process.returncode is None:
            try:
                await self.ask({"do": "stop"}, _ANSWER_S)
            except PeerFailed:
                pass
            finally:
                assert self._process.stdin is not None
                self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


async def _command(*argv: str) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise PeerFailed(f"{argv[0]}: {error.strerror}") from None
    try:
        _, said = await asyncio.wait_for(process.communicate(), _INSTALL_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise PeerFailed(f"{os.path.basename(argv[0])} did not end within {_INSTALL_S:g} s") from None
    if process.returncode:
        lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
        raise PeerFailed(lines[-1][:300] if lines else f"{argv[0]} failed")
