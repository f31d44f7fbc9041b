"""A folder under review that is in a pod: its layer's copy sent there, and what changed there brought back.

The stream has a program of its own beside the runner, and everything that comes from it is the agent's.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from crabpot.backends.kubernetes import naming, render
from crabpot.backends.kubernetes.errors import ClusterError
from crabpot.backends.kubernetes.stream import ExecStream
from crabpot.errors import SandboxLost, SandboxUnavailable
from crabpot.runner.files import mirror, records
from crabpot.runner.files.taking import FOLDER, Taking
from crabpot.spec.spec import COPY
from crabpot.state.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.backends.kubernetes.connection import Connection
    from crabpot.spec.spec import SandboxSpec

# Beside the copy, on its disk: a file is whole before it is in the copy.
_DRAFTS = "incoming"
_SILENT_S = 60.0
_CHANGES_S = 120.0


class Mirror:
    """The folder under review of one sandbox, here and in its pod."""

    def __init__(self, stream: ExecStream, layer: str, most: int) -> None:
        self._stream = stream
        self._layer = layer
        self._most = most
        stream.sock.settimeout(_SILENT_S)
        self._reading, self._writing = stream.sock.makefile("rb"), stream.sock.makefile("wb")
        # A thread of its own: a pod that sends a byte a minute keeps nobody else waiting.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="crabpot-mirror")

    @classmethod
    async def open(cls, connection: Connection, spec: SandboxSpec, pod: str) -> Mirror:
        """Send the copy of a layer into a pod; SandboxUnavailable if it does not arrive."""
        assert spec.layer is not None
        stream = await ExecStream.open(
            connection.cluster,
            f"{connection.path('pods', pod)}/exec",
            render.probe_command("mirror", spec.workspace_at),
            container=naming.CONTAINER,
        )
        made = cls(stream, spec.layer, int(spec.limits.disk))
        try:
            await made._in_thread(made._fill)
        except (OSError, EOFError, records.Broken) as error:
            why = stream.ended or error
            await made.close()
            raise SandboxUnavailable(f"the folder under review could not be sent into the pod: {why}") from None
        except BaseException:
            await asyncio.shield(made.close())
            raise
        return made

    async def bring_back(self) -> None:
        """Have the layer on this machine hold what is in the pod now; SandboxLost if that cannot be known."""
        try:
            async with asyncio.timeout(_CHANGES_S):
                await self._in_thread(self._take)
        except (OSError, EOFError, records.Broken, ClusterError, RuntimeError) as error:
            # What comes after half a record would be taken for the next one.
            await self._stream.close()
            why = error if isinstance(error, records.Broken) else self._stream.ended or error
            raise SandboxLost(f"what changed in the pod could not be brought back: {why}") from None

    async def close(self) -> None:
        """End the program in the pod."""
        await self._stream.close()
        self._thread.shutdown(wait=False)
        for file in (self._reading, self._writing):
            with suppress(OSError, ValueError):
                file.close()

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _fill(self) -> None:
        top = os.open(f"{self._layer}/{COPY}", FOLDER)
        try:
            mirror.send(self._writing, top, {})
        finally:
            os.close(top)
        if records.header(self._reading).get("kind") != "end":
            raise records.Broken("the pod did not say that all of it came")

    def _take(self) -> None:
        records.put(self._writing, {"kind": "changes"})
        drafts = f"{self._layer}/{_DRAFTS}"
        with suppress(FileNotFoundError):
            remove_tree(drafts)
        os.mkdir(drafts, 0o700)
        top, made = os.open(f"{self._layer}/{COPY}", FOLDER), os.open(drafts, FOLDER)
        try:
            Taking(top, drafts=made, most=self._most).take(self._reading)
        finally:
            os.close(top)
            os.close(made)
