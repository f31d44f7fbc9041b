r"""The Python API for programs without an event loop: a bridge to the one API, which runs in a thread of its own.

Example:
    >>> import crabpot.sync
    >>> with crabpot.sync.sandbox() as box:
    ...     box.write("notes.txt", "one\ntwo\n")
    ...     print(box.exec(["wc", "-l", "notes.txt"], text=True).stdout, end="")
    2 notes.txt
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from crabpot.doors.python.boxes import delete_sandbox, named_sandboxes
from crabpot.doors.python.boxes import sandbox as _sandbox
from crabpot.doors.python.gateway import Gateway as _Gateway
from crabpot.doors.python.session import Session as _Session

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from crabpot.host_tools import HostTool
    from crabpot.model import ToolResult

__all__ = ["Box", "Gateway", "Session", "delete_sandbox", "gateway", "named_sandboxes", "open_sandbox", "sandbox"]

Answer = TypeVar("Answer")
Given = ParamSpec("Given")

_starting = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine of the API to its end, from any thread but the API's own."""
    future = asyncio.run_coroutine_threadsafe(work, _running())
    try:
        return future.result()
    except BaseException:
        # Such as Control-C: what runs in the sandbox ends too.
        future.cancel()
        raise


def _running() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603  one thread for the whole program
    with _starting:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="crabpot", daemon=True).start()
        return _loop


def _waiting(
    method: Callable[Concatenate[Any, Given], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Any, Given], Answer]:
    """Return the method of a bridge that runs a coroutine method to its end; it takes and returns the same."""

    @wraps(method)
    def waiting(bridge: Any, /, *args: Given.args, **more: Given.kwargs) -> Answer:
        result: Answer = run(getattr(bridge._wrapped, method.__name__)(*args, **more))  # noqa: SLF001  ours
        return result

    waiting.__doc__ = f"Do what `crabpot.{method.__qualname__}` does, and wait for its end."
    return waiting


class Bridge:
    """What an object of the API does, with methods that wait."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped


class Session(Bridge):
    """A `crabpot.Session` whose methods run to their end and return what they return."""

    exec = _waiting(_Session.exec)
    read = _waiting(_Session.read)
    read_into = _waiting(_Session.read_into)
    write = _waiting(_Session.write)
    stat = _waiting(_Session.stat)
    exists = _waiting(_Session.exists)
    ls = _waiting(_Session.ls)
    mkdir = _waiting(_Session.mkdir)
    remove = _waiting(_Session.remove)
    move = _waiting(_Session.move)
    realpath = _waiting(_Session.realpath)
    upload = _waiting(_Session.upload)
    download = _waiting(_Session.download)
    snapshot = _waiting(_Session.snapshot)
    restore = _waiting(_Session.restore)
    port = _waiting(_Session.port)
    close = _waiting(_Session.close)

    def call(self, tool: str, **args: Any) -> ToolResult:
        """Do what `crabpot.Session.call` does, and wait for its end."""
        result: ToolResult = run(self._wrapped.call(tool, **args))
        return result

    def fork(self) -> Self:
        """Return another of its kind, with a copy of all files that this one has written."""
        return type(self)(run(self._wrapped.fork()))

    @property
    def session(self) -> str:
        """Return the session key, as in the audit log."""
        return str(self._wrapped.session)

    @property
    def time_ceiling(self) -> float:
        """Return the most seconds that a call may take."""
        return float(self._wrapped.time_ceiling)

    def __enter__(self) -> Self:
        """Return itself; the block's end closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class Box(Session):
    """A `crabpot.Box` whose methods run to their end and return what they return."""

    @property
    def name(self) -> str | None:
        """Return the name by which any program finds it again, or None."""
        return None if self._wrapped.name is None else str(self._wrapped.name)

    @property
    def state(self) -> str:
        """Return the folder for sandboxes and the audit log."""
        return str(self._wrapped.state)


class Gateway(Bridge):
    """A `crabpot.Gateway` whose calls run to their end."""

    call = _waiting(_Gateway.call)

    @classmethod
    @contextmanager
    def open(
        cls, config: str | os.PathLike[str] | Mapping[str, Any] | None = None, **options: Any
    ) -> Iterator[Gateway]:
        """Open a gateway for the block, as `crabpot.Gateway.open` does; `call` takes a session and a tool."""
        opened = _Gateway.open(config, **options)
        made = run(opened.__aenter__())
        try:
            yield cls(made)
        finally:
            run(opened.__aexit__(None, None, None))

    def register(self, name: str, tool: HostTool) -> None:
        """Register a host tool."""
        self._wrapped.register(name, tool)

    def session(self, session: str, *, sender: str | None = None) -> Session:
        """Return one session of this gateway."""
        return Session(self._wrapped.session(session, sender=sender))


def open_sandbox(folder: str | os.PathLike[str] | None = None, **settings: Any) -> Box:
    """Open a sandbox, as `crabpot.sandbox` does; `close` ends it."""

    async def opening() -> Any:
        return await _sandbox(folder, **settings)

    return Box(run(opening()))


@contextmanager
def sandbox(folder: str | os.PathLike[str] | None = None, **settings: Any) -> Iterator[Box]:
    """Open a sandbox for the block, as `crabpot.sandbox` does.

    Args:
        folder: The host folder to mount at /workspace, writable.
        **settings: `name`, `state`, `tools`, and settings of the configuration's `sandbox`, in snake case.

    Yields:
        The box.
    """
    with open_sandbox(folder, **settings) as box:
        yield box


gateway = Gateway.open
