"""The remote calls for files: stat, list, make, move, remove, and watch."""

from __future__ import annotations

import posixpath
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from crabpot.doors.e2b import connect, fields
from crabpot.doors.e2b.process_rpc import sandbox_of, streamed
from crabpot.doors.e2b.refusals import RpcError, failure_of
from crabpot.doors.e2b.watching import Watchers, watching
from crabpot.doors.http.access.refusals import Refusal
from crabpot.doors.http.context import as_json
from crabpot.doors.http.routes.streaming import watched

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from crabpot.doors.e2b.sandboxes import Sandbox, Sandboxes

_TYPES = {"file": "FILE_TYPE_FILE", "directory": "FILE_TYPE_DIRECTORY", "link": "FILE_TYPE_SYMLINK"}
_KINDS = {"file": stat.S_IFREG, "directory": stat.S_IFDIR, "link": stat.S_IFLNK}
_USER = "agent"
_DEEPEST, _MOST_ENTRIES = 32, 100_000


def absolute(home: str, path: str) -> str:
    """Return a path as the API shows it; a relative one is in the sandbox's own folder."""
    return posixpath.normpath(posixpath.join(home, path))


class FilesystemRpc:
    """The service filesystem.Filesystem."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    def routes(self) -> list[Route]:
        """Return the routes."""
        unary: dict[str, Callable[[Request, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "Stat": self.stat,
            "MakeDir": self.make_dir,
            "Move": self.move,
            "ListDir": self.list_dir,
            "Remove": self.remove,
            "CreateWatcher": self.create_watcher,
            "GetWatcherEvents": self.watcher_events,
            "RemoveWatcher": self.remove_watcher,
        }
        base = "/filesystem.Filesystem"
        found = [Route(f"{base}/{name}", _unary(handler), methods=["POST"]) for name, handler in unary.items()]
        return [*found, Route(f"{base}/WatchDir", self.watch_dir, methods=["POST"])]

    async def _call(self, request: Request, tool: str, **args: Any) -> dict[str, Any]:
        result = await self._sandboxes.call(sandbox_of(request), tool, args, gone=watched(request))
        if (failure := failure_of(result)) is not None:
            raise failure
        return dict(result.data or {})

    async def _entry(self, request: Request, path: str) -> dict[str, Any]:
        found = await self._call(request, "fs.stat", path=path, follow=False)
        info = _info(found, absolute(self._sandboxes.home(sandbox_of(request)), path))
        if found.get("type") != "link":
            return info
        target = await self._call(request, "fs.realpath", path=path)
        return {**info, "symlinkTarget": str(target.get("path"))}

    async def stat(self, request: Request, message: dict[str, Any]) -> dict[str, Any]:
        """Describe a file or folder."""
        return {"entry": await self._entry(request, fields.path(message))}

    async def make_dir(self, request: Request, message: dict[str, Any]) -> dict[str, Any]:
        """Make a folder, with those above it."""
        path = fields.path(message)
        await self._call(request, "fs.mkdir", path=path, parents=True)
        return {"entry": await self._entry(request, path)}

    async def move(self, request: Request, message: dict[str, Any]) -> dict[str, Any]:
        """Rename or move; what is at the destination is replaced, as the API has it."""
        source, destination = fields.path(message, "source"), fields.path(message, "destination")
        await self._call(request, "fs.move", path=source, to=destination, overwrite=True)
        return {"entry": await self._entry(request, destination)}

    async def remove(self, request: Request, message: dict[str, Any]) -> dict[str, Any]:
        """Remove a file, or a folder with all in it."""
        await self._call(request, "fs.remove", path=fields.path(message), recursive=True)
        return {}

    async def list_dir(self, request: Request, message: dict[str, Any]) -> dict[str, Any]:
        """List a folder, and with a depth those below it."""
        depth = fields.number(message, "depth", 1, most=_DEEPEST) or 1
        found: list[dict[str, Any]] = []
        waiting = [(absolute(self._sandboxes.home(sandbox_of(request)), fields.path(message)), depth)]
        while waiting:
            folder, left = waiting.pop(0)
            try:
                listed = await self._page(request, folder, len(found))
            except RpcError as error:
                # What went away meanwhile, or may not be read, is not listed.
                if left == depth or error.code not in ("not_found", "permission_denied"):
                    raise
                continue
            for entry in listed:
                found.append(_info(entry, posixpath.join(folder, str(entry.get("name")))))
                if left > 1 and entry.get("type") == "directory":
                    waiting.append((posixpath.join(folder, str(entry.get("name"))), left - 1))
        return {"entries": found}

    async def _page(self, request: Request, folder: str, before: int) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        truncated = True
        while truncated:
            after = {"after": str(listed[-1].get("name"))} if listed else {}
            page = await self._call(request, "fs.ls", path=folder, **after)
            entries = page.get("entries") or []
            listed += entries
            truncated = bool(page.get("truncated")) and bool(entries)
            if before + len(listed) > _MOST_ENTRIES:
                raise RpcError("resource_exhausted", f"more than {_MOST_ENTRIES} entries; list a smaller folder")
        return listed

    def _watchers(self, request: Request) -> Watchers:
        sandbox: Sandbox = sandbox_of(request)
        found = sandbox.parts.get("watchers")
        if found is None:
            found = sandbox.parts["watchers"] = Watchers(self._sandboxes, sandbox)
        assert isinstance(found, Watchers)
        return found

    async def create_watcher(self, request: Request, message: dict[str, Any]) -> dict[str, Any]:
        """Begin to note what happens in a folder."""
        made = await self._watchers(request).add(fields.path(message), recursive=fields.flag(message, "recursive"))
        return {"watcherId": made}

    async def watcher_events(self, request: Request, message: dict[str, Any]) -> dict[str, Any]:
        """Return what happened since the last time."""
        return {"events": self._watchers(request).events(fields.text(message, "watcherId"))}

    async def remove_watcher(self, request: Request, message: dict[str, Any]) -> dict[str, Any]:
        """Note no more."""
        self._watchers(request).remove(fields.text(message, "watcherId"))
        return {}

    async def watch_dir(self, request: Request) -> Response:
        """Send what happens in a folder, as it does."""
        try:
            message = await connect.only(request)
            path, recursive = fields.path(message), fields.flag(message, "recursive")
            sandbox = sandbox_of(request)
        except Refusal as error:
            refusal = error

            async def refuse(_stream: Any, _gone: Any) -> None:
                raise refusal

            return streamed(request, refuse)

        async def write(stream: connect.Stream, gone: Any) -> None:
            async def tell(event: dict[str, str] | None) -> None:
                await stream.send({"start": {}} if event is None else {"filesystem": event})

            await watching(self._sandboxes, sandbox, path, recursive=recursive, tell=tell, gone=gone)

        return streamed(request, write)


def _unary(
    handler: Callable[[Request, dict[str, Any]], Awaitable[dict[str, Any]]],
) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        return as_json(await handler(request, await connect.unary(request)))

    return route


def _info(found: dict[str, Any], where: str) -> dict[str, Any]:
    """Describe an entry as the API does, by what came from inside: anything may be in it."""
    kind, size, mode, modified = (found.get(name) for name in ("type", "size", "mode", "modified"))
    bits = mode & 0o7777 if isinstance(mode, int) else 0o755 if kind == "directory" else 0o644
    when = modified if isinstance(modified, int | float) and 0 <= modified < 2**40 else 0
    return {
        "name": posixpath.basename(where) or "/",
        "type": _TYPES.get(str(kind), "FILE_TYPE_UNSPECIFIED"),
        "path": where,
        "size": str(size if isinstance(size, int) else 0),
        "mode": bits,
        "permissions": stat.filemode(_KINDS.get(str(kind), 0) | bits),
        "owner": _USER,
        "group": _USER,
        "modifiedTime": datetime.fromtimestamp(min(when, 2**37), UTC).isoformat().replace("+00:00", "Z"),
    }
