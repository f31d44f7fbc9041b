"""The code interpreter's routes: run code, and its contexts."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from crabpot.doors.e2b import fields
from crabpot.doors.e2b.kernels import kernels_of
from crabpot.doors.e2b.process_rpc import sandbox_of
from crabpot.doors.http.context import as_json
from crabpot.doors.http.requests import object_of
from crabpot.doors.http.routes.streaming import Pieces, watched

if TYPE_CHECKING:
    from starlette.requests import Request

    from crabpot.doors.e2b.kernels import Kernel, Kernels
    from crabpot.doors.e2b.sandboxes import Sandboxes

_LINES = "application/x-ndjson"


class Interpreter:
    """The routes of the code interpreter."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/execute", self.execute, methods=["POST"]),
            Route("/contexts", self.list, methods=["GET"]),
            Route("/contexts", self.add, methods=["POST"]),
            Route("/contexts/{id}", self.remove, methods=["DELETE"]),
            Route("/contexts/{id}/restart", self.restart, methods=["POST"]),
        ]

    def _kernels(self, request: Request) -> Kernels:
        return kernels_of(self._sandboxes, sandbox_of(request))

    async def execute(self, request: Request) -> Response:
        """Run code, and send each output as a line of JSON."""
        body = await object_of(request)
        kernels = self._kernels(request)
        kernel = kernels.find(
            fields.text(body, "context_id", "") if body.get("context_id") is not None else None,
            fields.text(body, "language", "") if body.get("language") is not None else None,
        )
        code, envs = fields.text(body, "code"), fields.texts(body, "env_vars")

        async def write(pieces: Pieces) -> None:
            running = asyncio.create_task(self._run(pieces, kernels, kernel, code, envs))
            await self._sandboxes.context.calls.finish(running, watched(request))

        return Pieces(_LINES, write)

    async def _run(self, pieces: Pieces, kernels: Kernels, kernel: Kernel, code: str, envs: dict[str, str]) -> None:
        async with aclosing(kernels.run(kernel, code, envs)) as outputs:
            async for output in outputs:
                await pieces.send(json.dumps(output).encode() + b"\n")

    async def list(self, request: Request) -> Response:
        """List the contexts."""
        return as_json([kernel.as_json() for kernel in self._kernels(request).listed()])

    async def add(self, request: Request) -> Response:
        """Add a context."""
        body = await object_of(request)
        language = fields.text(body, "language", "") or None
        made = self._kernels(request).add(language=language, cwd=fields.text(body, "cwd", "") or None)
        return as_json(made.as_json())

    async def remove(self, request: Request) -> Response:
        """Remove a context."""
        self._kernels(request).remove(request.path_params["id"])
        return Response(status_code=204)

    async def restart(self, request: Request) -> Response:
        """Forget all that a context has defined."""
        self._kernels(request).find(request.path_params["id"], None).end()
        return Response(status_code=204)
