"""Start the runner on the host, as the gateway's own user, for sessions that are not sandboxed."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from crabpot.backends import runner_source
from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.wire.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.settings import Limits

# A runner that has not ended by then, with all that it runs, hangs.
END_S = 5.0


class HostRunner:
    """A runner on the host; it ends with its stream."""

    def __init__(
        self, channel: Channel, hello: Mapping[str, Any], process: subprocess.Popen[bytes], *, end_s: float
    ) -> None:
        self.channel = channel
        self.hello = hello
        self.pid = process.pid
        self._process = process
        self._end_s = end_s

    async def close(self) -> None:
        """End the runner and, through it, what it still runs."""
        self.channel.sock.close()
        await asyncio.shield(asyncio.to_thread(_await_end, self._process, self._end_s))

    async def freeze(self) -> None:
        """Refuse: what runs on the host may have started anything anywhere."""
        raise SandboxLost("what runs on the host cannot be frozen")

    async def thaw(self) -> None:
        """Do nothing: it was never frozen."""

    async def cause_of_death(self) -> tuple[str, str] | None:
        """Return None: no limit of ours applies on the host."""
        return None

    async def bring_back(self) -> None:
        """Do nothing: what it writes is on this machine."""

    async def remount(self) -> bool:
        """Return that there is nothing to remount: nothing of it is under review."""
        return False

    def rename(self, name: str) -> None:
        """Do nothing: no name of it is seen."""


def _await_end(process: subprocess.Popen[bytes], end_s: float) -> None:
    try:
        process.wait(end_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def open_on_host(
    workspace: str, limits: Limits, environ: Mapping[str, str], *, end_s: float = END_S
) -> HostRunner:
    """Start a runner in the agent's workspace, which is made if it does not exist."""
    try:
        os.makedirs(workspace, exist_ok=True)
    except OSError as error:
        raise SandboxUnavailable(f"no runner can start in the workspace {workspace}: {error.strerror}") from None
    folder = os.path.realpath(workspace)
    return start_in(folder, shown=folder, output_limit=limits.output, environ=environ, end_s=end_s)


def start_in(  # noqa: PLR0913  where, as what, and within what
    folder: str,
    *,
    shown: str,
    output_limit: int,
    environ: Mapping[str, str],
    within: Mapping[str, Any] | None = None,
    end_s: float = END_S,
) -> HostRunner:
    """Start a runner in a folder, whose name may be a descriptor's; `shown` is its path.

    `within` are fields of hello (`writable`, `offline`, `limits`) that confine it, where nothing else does.
    """
    try:
        channel, process = _start(folder)
    except OSError as error:
        raise SandboxUnavailable(f"no runner can start in {shown}: {error.strerror}") from None
    hello = greeting(shown, output_limit=output_limit, environ=environ)
    given = dict(within or {})
    hello["limits"] |= given.pop("limits", {})
    return HostRunner(channel, {**hello, **given}, process, end_s=end_s)


def greeting(folder: str, *, output_limit: int, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the first frame for a runner on the host."""
    return {
        "op": "hello",
        "workspace": folder,
        "roots": [folder],
        "env": dict(environ),
        "shell": ["/bin/sh"],
        "limits": {"output": output_limit, "open_files": None, "file_size": None, "processes": None},
        "contained": False,
        "shims": [],
    }


def _start(folder: str) -> tuple[Channel, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", runner_source.PROGRAM, "--fd", str(theirs.fileno())],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    return Channel(sock=ours), process
