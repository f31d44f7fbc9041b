"""A gateway that a program opens for itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from crabpot import app, gateway
from crabpot.doors.python.session import Session
from crabpot.errors import ConfigError
from crabpot.sandboxes.snapshots import Snapshots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from crabpot.approvals.approver import Approver
    from crabpot.approvals.requests import Answer, Request

    Callback = Callable[[Request], Awaitable[Answer | None]]

_NAME = "crabpot.Gateway.open()"


class Gateway(gateway.Gateway):
    """A gateway that a program opens for itself: agents, policy, sandboxes, approvals and audit log."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        *,
        state: str | os.PathLike[str] | None = None,
        approver: Approver | Callback | None = None,
    ) -> AsyncIterator[Gateway]:
        """Open a gateway for the block; its sandboxes end with it.

        Args:
            config: The configuration file, or a whole configuration as a mapping. Without one, `$CRABPOT_CONFIG` or
                the user's own file is read, or the defaults apply.
            state: The folder for sandboxes, the audit log and approvals. Without one, it is `$CRABPOT_STATE` or the
                user's own state folder.
            approver: Answers requests in place of an operator: `async def (request) -> Answer | None`, or an object
                with such a method `ask`. Without one, a command that needs approval is denied at once.

        Yields:
            The gateway.

        Raises:
            ConfigError: The configuration is wrong; the error lists every problem.
            CrabpotError: The state folder or the audit log cannot be used.

        Example:
            >>> import asyncio, crabpot
            >>> async def approve(request: crabpot.Request) -> crabpot.Answer:
            ...     return crabpot.Answer(allowed=request.argv[0] == "git", by="example")
            >>> async def main() -> None:
            ...     async with crabpot.Gateway.open(approver=approve) as gateway:
            ...         result = await gateway.call("agent:main:main", "exec", command="echo hello")
            ...         print(result.stdout, end="")
            >>> asyncio.run(main())
            hello
        """
        made = _wired(config, state, cls)
        assert isinstance(made, cls)
        if approver is not None:
            made.desk.attach(approver if hasattr(approver, "ask") else _Called(approver))
        try:
            made.execution.warm_up(made.settings)
            yield made
        finally:
            await made.close()

    def session(self, session: str, *, sender: str | None = None) -> Session:
        r"""Return one session of this gateway, with a method for everything that a program does in its sandbox.

        Args:
            session: The session key, such as `agent:main:main`. It names the agent, and so the policy.
            sender: Who sent the message behind its calls, for `tools.elevated.allowFrom`.

        Example:
            >>> import asyncio, crabpot
            >>> async def main() -> None:
            ...     async with crabpot.Gateway.open() as gateway:
            ...         session = gateway.session("agent:main:main")
            ...         await session.write("numbers.txt", "3\n1\n2\n")
            ...         print((await session.exec(["sort", "numbers.txt"])).stdout)
            >>> asyncio.run(main())
            b'1\n2\n3\n'
        """
        return Session(self, session, sender=sender)


def _wired(
    config: str | os.PathLike[str] | Mapping[str, Any] | None, state: str | os.PathLike[str] | None, kind: type[Gateway]
) -> gateway.Gateway:
    if not isinstance(config, Mapping):
        return app.start(config=config, state=state, environ=os.environ).gateway(kind=kind)
    text = json.dumps(config, default=os.fspath)
    try:
        return app.start(config=None, state=state, environ=os.environ).gateway(text, kind=kind)
    except ConfigError as error:
        # There is no file, and no line in it.
        raise ConfigError(*(one._replace(file=_NAME, line=None) for one in error.problems)) from None


class _Called:
    """An approver made from a function."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback

    async def ask(self, request: Request) -> Answer | None:
        """Return the function's answer."""
        return await self._callback(request)


def snapshots(pipeline: gateway.Gateway) -> Snapshots:
    """Return the snapshots of a gateway's sessions: `save`, `all`, `restore`, `remove` and `fork`.

    Args:
        pipeline: An open gateway.

    Example:
        >>> import asyncio, crabpot
        >>> async def main() -> None:
        ...     async with crabpot.Gateway.open() as gateway:
        ...         await gateway.call("agent:main:one", "write", path="note", content="common")
        ...         await crabpot.snapshots(gateway).fork("agent:main:one", "agent:main:two", "agent:main:three")
        ...         print((await gateway.call("agent:main:two", "exec", command="cat note")).stdout)
        >>> asyncio.run(main())
        common
    """
    return Snapshots(pipeline.execution, pipeline.settings, pipeline.audit)
