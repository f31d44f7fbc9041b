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
import inspect
import threading
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar

from crabpot.doors.python.boxes import delete_sandbox, named_sandboxes
from crabpot.doors.python.boxes import sandbox as _sandbox
from crabpot.doors.python.gateway import Gateway as _Gateway

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

__all__ = ["Bridge", "delete_sandbox", "gateway", "named_sandboxes", "open_sandbox", "sandbox"]

Answer = TypeVar("Answer")

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


class Bridge:
    """A session, box or gateway whose coroutine methods run to their end and return what they return.

    It has every method and attribute of `crabpot.Session` and `crabpot.Box`, as documented there.
    """

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        """Return a method that waits, or the attribute itself."""
        found = getattr(self._wrapped, name)
        if not callable(found):
            return found

        @wraps(found)
        def waiting(*args: Any, **more: Any) -> Any:
            made = found(*args, **more)
            return run(made) if inspect.iscoroutine(made) else made

        return waiting

    def __enter__(self) -> Self:
        """Return itself; the block's end closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def open_sandbox(folder: str | None = None, **settings: Any) -> Bridge:
    """Open a sandbox, as `crabpot.sandbox` does; `close` ends it."""

    async def opening() -> Any:
        return await _sandbox(folder, **settings)

    return Bridge(run(opening()))


@contextmanager
def sandbox(folder: str | None = None, **settings: Any) -> Iterator[Bridge]:
    """Open a sandbox for the block, as `crabpot.sandbox` does.

    Args:
        folder: The host folder to mount at /workspace, writable.
        **settings: `name`, `state`, and settings of the configuration's `sandbox`, in snake case.

    Yields:
        The box.
    """
    with open_sandbox(folder, **settings) as box:
        yield box


@contextmanager
def gateway(config: str | None = None, **options: Any) -> Iterator[Bridge]:
    """Open a gateway for the block, as `crabpot.Gateway.open` does; `call` takes a session and a tool."""
    opened = _Gateway.open(config, **options)
    made = run(opened.__aenter__())
    try:
        yield Bridge(made)
    finally:
        run(opened.__aexit__(None, None, None))
