"""Start the runner on the host, as the gateway's own user, for sessions that are not sandboxed."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import crabpot.runner
from crabpot.backends.base import Channel
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.settings import Limits

_END_S = 5.0


class HostRunner:
    """A runner on the host; it ends with its stream."""

    def __init__(self, channel: Channel, hello: Mapping[str, Any], process: subprocess.Popen[bytes]) -> None:
        self.channel = channel
        self.hello = hello
        self._process = process

    async def close(self) -> None:
        """End the runner and, through it, what it still runs."""
        self.channel.sock.close()
        try:
            await asyncio.to_thread(self._process.wait, _END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def cause_of_death(self) -> tuple[str, str] | None:
        """No limit of ours holds on the host."""
        return None


async def open_on_host(workspace: str, limits: Limits, environ: Mapping[str, str]) -> HostRunner:
    """Start a runner in the agent's workspace, which is made if it is not there."""
    try:
        os.makedirs(workspace, exist_ok=True)
    except OSError as error:
        raise SandboxUnavailable(f"the workspace {workspace} cannot be made: {error.strerror}") from None
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    program = str(Path(crabpot.runner.__file__).with_name("__main__.py"))
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", program, "--fd", str(theirs.fileno())],
            cwd=workspace,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    hello = {
        "op": "hello",
        "workspace": workspace,
        "roots": [workspace],
        "env": dict(environ),
        "shell": ["/bin/sh"],
        "limits": {"output": limits.output, "open_files": None, "file_size": None, "processes": None},
        "contained": False,
        "shims": [],
    }
    return HostRunner(Channel(sock=ours), hello, process)
