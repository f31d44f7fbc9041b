"""One running server and the protocol's session with it: started, asked, ended, and never trusted."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from crabpot.approvals.display import line as displayed
from crabpot.servers.messages import Misbehaved

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from crabpot.servers.pins import Described

_MOST_LISTED, _MOST_PAGES = 512, 64
_PING_S = 5.0
_QUEUE = 16


class ServerFailed(Exception):
    """A server has no answer: it did not start, ended, or went too far. The message says which, for a person."""


class ServerRefused(Exception):
    """A server answered a request with an error of its own."""


class ServerTimeout(Exception):
    """A server did not answer in time."""


class Transport(Protocol):
    """What carries messages to a server and back."""

    async def carry(
        self, written: AsyncIterator[SessionMessage], heard: Callable[[SessionMessage], Awaitable[None]]
    ) -> str:
        """Carry messages until the server ends, and return why it did; Misbehaved if it went too far."""

    def new_call(self) -> None:
        """Reset how much the server may send to what one call may take."""


class QuestionTaker(Protocol):
    """What answers the questions of a server."""

    @property
    def sampling(self) -> bool:
        """Whether the server is told at all that it may ask for a model."""

    async def elicit(self, context: Any, params: Any) -> Any:
        """Ask a person."""

    async def sample(self, context: Any, params: Any) -> Any:
        """Ask the caller's model."""


class Connection:
    """A server that was started, and greeted."""

    def __init__(self, name: str, transport: Transport, *, start_s: float, asked: QuestionTaker | None = None) -> None:
        self._name = name
        self._asked = asked
        self._limits: list[asyncio.Timeout] = []
        self._transport = transport
        self._start_s = start_s
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self.ended: str | None = None
        # Whether it announced other tools since they were last compared.
        self.stale = False
        # Called with what it announced: `resources`, or words that are compared.
        self.on_change: Callable[[str], None] | None = None
        self.busy = 0
        self.used = time.monotonic()

    async def start(self) -> None:
        """Start it and greet it, or raise ServerFailed."""
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._done)
        try:
            async with asyncio.timeout(self._start_s):
                await asyncio.shield(self._ready)
        except TimeoutError:
            await self.end(f"it did not answer within {self._start_s:g} s")
            raise self._failure() from None
        except BaseException:
            await self.end("its start was given up")
            raise

    async def _run(self) -> None:
        inbox, heard = anyio.create_memory_object_stream[SessionMessage | Exception](_QUEUE)
        said, outbox = anyio.create_memory_object_stream[SessionMessage](_QUEUE)
        async with asyncio.TaskGroup() as tasks:
            carrying = tasks.create_task(self._carry(inbox, outbox))
            try:
                async with ClientSession(
                    heard,
                    said,
                    message_handler=self._hear,
                    sampling_callback=None if self._asked is None or not self._asked.sampling else self._asked.sample,
                    elicitation_callback=None if self._asked is None else self._asked.elicit,
                    client_info=Implementation(name="crabpot", version="1"),
                ) as session:
                    await session.initialize()
                    self._ready.set_result(session)
                    await self._over.wait()
            finally:
                carrying.cancel()

    async def _carry(self, inbox: Any, outbox: Any) -> None:
        try:
            async with inbox, outbox:
                self._note(await self._transport.carry(outbox, inbox.send))
        except Misbehaved as error:
            self._note(str(error))
        finally:
            self._over.set()

    async def _hear(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification | PromptListChangedNotification):
            self.stale = True
            self._announce("tools")
        elif isinstance(message, ResourceListChangedNotification):
            self._announce("resources")

    def _announce(self, what: str) -> None:
        if self.on_change is not None:
            self.on_change(what)

    def _note(self, why: str) -> None:
        self.ended = self.ended or why

    def _done(self, task: asyncio.Task[None]) -> None:
        self._over.set()
        error = None if task.cancelled() else task.exception()
        self._note("it was ended" if error is None else f"it did not greet as a server does: {_sentence(error)}")
        if not self._ready.done():
            self._ready.set_exception(self._failure())
            # Read once: nobody may be waiting for it any more.
            self._ready.exception()

    def _failure(self) -> ServerFailed:
        return ServerFailed(f"the server {self._name} is not there: {self.ended or 'it ended'}")

    async def end(self, why: str) -> None:
        """End it, with everything that it started."""
        self._note(why)
        if self._task is None:
            return
        self._over.set()
        self._task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await asyncio.wait([self._task])

    @property
    def offers(self) -> frozenset[str]:
        """What it says that it has: tools, resources, prompts."""
        said = self._ready.result().server_capabilities
        return frozenset() if said is None else frozenset(said.model_dump(exclude_none=True))

    async def tools(self) -> dict[str, Described]:
        """Ask it for its tools; ServerFailed if they are more than anybody reads."""
        found = await self.listed(ListToolsRequest, ListToolsResult, "tools")
        return {one["name"]: one for one in found}

    async def listed(self, request: Any, result: Any, what: str) -> list[dict[str, Any]]:
        """Ask it for all pages of a list; ServerFailed if they are more than anybody reads."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            page = await self.ask(request(params=params), result, timeout_s=self._start_s)
            found += page.model_dump(by_alias=True, exclude_none=True, mode="json")[what]
            if len(found) > _MOST_LISTED:
                await self.end(f"it lists more than {_MOST_LISTED} {what}")
                raise self._failure()
            cursor = page.next_cursor
            if cursor is None:
                return found
        await self.end(f"its list of {what} has more than {_MOST_PAGES} pages")
        raise self._failure()

    async def call(
        self,
        tool: str,
        args: Mapping[str, Any],
        *,
        timeout_s: float,
        progress: Callable[[float, float | None, str | None], Awaitable[None]] | None = None,
    ) -> CallToolResult:
        """Call one of its tools. A caller that leaves cancels the call there too."""
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(args)))
        # Not by the SDK's `call_tool`: it would match the answer with the server's own schema, patterns included, and
        # a pattern can take hours.
        answer: CallToolResult = await self.ask(request, CallToolResult, timeout_s=timeout_s, progress=progress)
        return answer

    @contextmanager
    def waiting_for_a_person(self) -> Iterator[None]:
        """Stop the clock of the calls in progress: it is a person who takes their time, not the server."""
        now = asyncio.get_running_loop().time
        left = [(one, one.when()) for one in self._limits]
        began = now()
        for one, _ in left:
            one.reschedule(None)
        try:
            yield
        finally:
            for one, when in left:
                if one in self._limits and when is not None and not one.expired():
                    one.reschedule(when + now() - began)

    async def ask(self, request: Any, answer: Any, *, timeout_s: float, progress: Any = None) -> Any:
        """Send a request, and return its answer; a caller that leaves cancels the request there too."""
        if self.ended is not None:
            raise self._failure()
        session = self._ready.result()
        self.busy += 1
        self._transport.new_call()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                self._limits.append(limit)
                try:
                    return await session.send_request(request, answer, progress_callback=progress)
                finally:
                    self._limits.remove(limit)
        except TimeoutError:
            await self._check_alive(session)
            raise ServerTimeout(f"the server {self._name} did not answer within {timeout_s:g} s") from None
        except MCPError as error:
            if self.ended is not None or self._over.is_set():
                await self._settled()
                raise self._failure() from None
            raise ServerRefused(f"the server {self._name} answers: {displayed(error.error.message[:500])}") from None
        except ValidationError:
            raise ServerRefused(f"the server {self._name} answered something that is no answer") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._settled()
            raise self._failure() from None
        finally:
            self.busy -= 1
            self.used = time.monotonic()

    async def _settled(self) -> None:
        """Wait until it is known why it ended."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_PING_S)

    async def _check_alive(self, session: ClientSession) -> None:
        """End a server that hangs, so that the next call finds a new one."""
        try:
            async with asyncio.timeout(_PING_S):
                await session.send_ping()
        except Exception:  # noqa: BLE001  whatever it is, it is no answer
            await self.end("it hung, and was ended")


def _sentence(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return displayed(error.error.message[:500])
    return f"{type(error).__name__}: {displayed(str(error)[:200])}"
