"""A program in the runner's place, on the other end of a real gateway's wire, that sends whatever an attacker would."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from crabpot.wire.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping

_END_S = 5.0

# The functions that such programs use. A failed send means that the gateway has hung up.
_WORDS = r"""
import json, socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
stream = sock.makefile("rb")
DONE = {"success": True, "stdout": "", "stderr": "", "exit_code": 0, "error": None, "truncated": False, "data": None}


def take():
    header = json.loads(stream.readline() or "{}")
    stream.read(header.get("bytes", 0))
    return header


def raw(data):
    sock.sendall(data)


def send(header, payload=b""):
    raw(json.dumps(dict(header, bytes=len(payload)) if payload else header).encode() + b"\n" + payload)


def call():
    while True:
        header = take()
        if not header or "tool" in header:
            return header.get("id", "")


def greet():
    take()
    send({"op": "ready", "protocol": 1, "pid": 1, "python": "3.11.2", "uid": 1})


def answer(call, **fields):
    send(dict(DONE, id=call, **fields))


try:
    greet()
    SCRIPT
    while stream.read(65536):
        pass
except OSError:
    pass
"""


class Impostor:
    """A sandbox to the fleet, with nothing inside but that program."""

    def __init__(self, script: str, hello: Mapping[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.channel = Channel(sock=ours)
        self.hello = hello
        with theirs:
            text = _WORDS.replace("SCRIPT", script.strip().replace("\n", "\n    "))
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", text, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={},
                cwd="/",
            )

    @property
    def pid(self) -> int:
        """Return the pid of that program."""
        return self._process.pid

    async def close(self) -> None:
        """End it."""
        self.channel.sock.close()
        if self._process.poll() is None:
            self._process.kill()
        await asyncio.to_thread(self._process.wait, _END_S)

    async def freeze(self) -> None:
        """Do nothing: it cannot write anything."""

    async def thaw(self) -> None:
        """Do nothing, as above."""

    async def cause_of_death(self) -> tuple[str, str] | None:
        """Return None: it hit no limit."""
        return None

    async def bring_back(self) -> None:
        """Do nothing: what it writes is on this machine."""

    async def remount(self) -> bool:
        """Return that there is nothing to remount."""
        return False

    def rename(self, name: str) -> None:
        """Do nothing: no name of it is seen."""
