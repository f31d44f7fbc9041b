"""Questions of a serving gateway, asked where its client is, and their answers.

A client is a process of the gateway's own user, hence an operator. A frame `ask` sends it a request, `withdraw` takes
it back, and its own frame `answer` carries a person's answer.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from crabpot.approvals.requests import Answer, Request
from crabpot.runner.core.frames import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.approvals.approver import Approver

    Send = Callable[[dict[str, Any], bytes], None]


class Asker:
    """The gateway's side: an approver for one client."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._asked: dict[str, asyncio.Future[Answer | None]] = {}

    async def ask(self, request: Request) -> Answer | None:
        """Ask the client; return None if it is already being asked, or cannot be."""
        if request.id in self._asked:
            return None
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._asked[request.id] = answered
        try:
            try:
                self._send({"op": "ask", "id": request.id}, json.dumps(request.as_json()).encode())
            except FrameError:
                return None  # Longer than a frame, and so longer than anybody reads.
            return await answered
        except asyncio.CancelledError:
            self._send({"op": "withdraw", "id": request.id}, b"")
            raise
        finally:
            del self._asked[request.id]

    def take(self, header: dict[str, Any]) -> None:
        """Handle an answer; one that comes too late is ignored."""
        answered = self._asked.get(str(header.get("id")))
        given = header.get("answer")
        try:
            answer = None if given is None else Answer.from_json(given)
        except (ValueError, AttributeError):
            raise FrameError("an invalid answer") from None
        if answered is not None and not answered.done():
            answered.set_result(answer)


class Answerer:
    """The client's side: passes each question to its own approver."""

    def __init__(self, send: Send) -> None:
        self.approver: Approver | None = None
        self._send = send
        self._asking: dict[str, asyncio.Task[None]] = {}

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        """Handle a question or its withdrawal."""
        request_id = str(header.get("id"))
        task = self._asking.get(request_id)
        if header.get("op") == "withdraw":
            if task is not None:
                task.cancel()
            return
        if task is not None or self.approver is None:
            raise FrameError("an unexpected question")
        try:
            request = Request.from_json(json.loads(payload))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise FrameError("an invalid question") from None
        task = self._asking[request_id] = asyncio.create_task(self._ask(self.approver, request))
        task.add_done_callback(lambda _: self._asking.pop(request_id, None))

    async def _ask(self, approver: Approver, request: Request) -> None:
        answer = await approver.ask(request)
        given = None if answer is None else answer.as_json()
        self._send({"op": "answer", "id": request.id, "answer": given}, b"")

    async def close(self) -> None:
        """Cancel all open questions."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
