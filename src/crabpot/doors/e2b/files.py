"""Files by plain HTTP: download, and upload as a form of several files or as the body itself."""

from __future__ import annotations

import posixpath
import zlib
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from crabpot.doors.e2b.filesystem_rpc import absolute
from crabpot.doors.e2b.multipart import Form
from crabpot.doors.e2b.process_rpc import check_user, sandbox_of
from crabpot.doors.e2b.refusals import failure_of
from crabpot.doors.http.access.refusals import Refusal, bad_request
from crabpot.doors.http.context import as_json
from crabpot.doors.http.routes.calls import Broken
from crabpot.doors.http.routes.streaming import Pieces, watched
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from crabpot.doors.e2b.sandboxes import Sandboxes

_BYTES = "application/octet-stream"
_STATUS = {"already_exists": 409, "resource_exhausted": 507, "unavailable": 502, "permission_denied": 403}
_INFLATED = 256 * 1024


class Files:
    """The routes for files, and for whether a sandbox lives."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/files", self.download, methods=["GET"]),
            Route("/files", self.upload, methods=["POST"]),
            Route("/health", self.health, methods=["GET"]),
        ]

    async def health(self, _request: Request) -> Response:
        """Answer that the sandbox whose secret was shown is there."""
        return Response(status_code=204)

    async def download(self, request: Request) -> Response:
        """Send a file unchanged, whatever its size."""
        sandbox, path = sandbox_of(request), _path(request)
        if not path:
            raise bad_request("path is missing")

        async def write(pieces: Pieces) -> Response | None:
            async def take(_stream: str, data: bytes) -> None:
                await pieces.send(data)

            args = {"path": path, "encoding": "base64"}
            gone = watched(request)
            result = await self._sandboxes.call(sandbox, "read", args, gone=gone, streams=Streams(sink=take))
            if result.success:
                return Response(b"", media_type=_BYTES)
            if pieces.started:
                raise Broken("the file could not be sent as a whole")
            raise _refusal(result)

        return Pieces(_BYTES, write)

    async def upload(self, request: Request) -> Response:
        """Write files from the body; each replaces an old one only once it is complete."""
        path = _path(request)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = request.headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip") or (encoding == "gzip" and kind != _BYTES):
            raise Refusal(415, "invalid", "the body may be gzip for application/octet-stream, and nothing else")
        if kind == _BYTES:
            if not path:
                raise bad_request("path is missing")
            body = request.stream() if encoding == "identity" else _inflated(request)
            return as_json([await self._write(request, path, body)])
        if kind != "multipart/form-data":
            raise Refusal(415, "invalid", "the body is a form of files, or application/octet-stream")
        form = Form(request.headers["content-type"], request.stream())
        written: list[dict[str, str]] = []
        async for name, content in form.files():
            if written and path:
                raise bad_request("one path for several files")
            written.append(await self._write(request, path or name, content))
        return as_json(written)

    async def _write(self, request: Request, path: str, content: AsyncIterator[bytes]) -> dict[str, str]:
        gone: Any = request.scope["state"]["gone"]
        result = await self._sandboxes.call(
            sandbox_of(request), "write", {"path": path}, gone=gone, streams=Streams(source=content)
        )
        if result.error is not None:
            raise _refusal(result)
        where = absolute(self._sandboxes.home(sandbox_of(request)), path)
        return {"name": posixpath.basename(where), "type": "file", "path": where}


def _path(request: Request) -> str:
    check_user(request.query_params.get("username", ""))
    path = request.query_params.get("path", "")
    if "\0" in path:
        raise bad_request("path must be text")
    return path


def _refusal(result: Any) -> Refusal:
    failure = failure_of(result)
    assert failure is not None
    return Refusal(_STATUS.get(failure.code, failure.status), failure.code, failure.message)


async def _inflated(request: Request) -> AsyncIterator[bytes]:
    """Yield a body without its compression, a little at a time: a small body may be a large file."""
    inflate = zlib.decompressobj(31)
    try:
        async for data in request.stream():
            held = data
            while held:
                if piece := inflate.decompress(held, _INFLATED):
                    yield piece
                held = inflate.unconsumed_tail
    except zlib.error:
        raise bad_request("the body is not gzip") from None
    if not inflate.eof:
        raise bad_request("the gzip body is not complete")
