"""The door for Python programs."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crabpot import app, gateway
from crabpot.decide import sessions
from crabpot.errors import ConfigError, Problem
from crabpot.layers.snapshots import forget_all as forget_snapshots
from crabpot.sandboxes import private_folders
from crabpot.sandboxes.snapshots import Snapshots
from crabpot.settings import camel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from crabpot.approvals.approver import Approver
    from crabpot.approvals.requests import Answer, Request
    from crabpot.model import ToolResult

    Callback = Callable[[Request], Awaitable[Answer | None]]

_NAME = "crabpot.sandbox()"
_SETTINGS = "agents.defaults.sandbox."


class Gateway(gateway.Gateway):
    """A gateway that a program opens for itself: agents, policy, sandboxes, approvals and audit log."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: str | None = None,
        *,
        state: str | None = None,
        approver: Approver | Callback | None = None,
    ) -> AsyncIterator[gateway.Gateway]:
        """Open a gateway for the block; its sandboxes end with it.

        Args:
            config: The configuration file. Without one, `$CRABPOT_CONFIG` or the user's own file is read, or the
                defaults apply.
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
        made = app.start(config=config, state=state, environ=os.environ).gateway()
        if approver is not None:
            made.desk.attach(approver if hasattr(approver, "ask") else _Called(approver))
        try:
            made.execution.warm_up(made.settings)
            yield made
        finally:
            await made.close()


class _Called:
    """An approver made from a function."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback

    async def ask(self, request: Request) -> Answer | None:
        """Return the function's answer."""
        return await self._callback(request)


class Box:
    """One sandbox of a program's own, from `crabpot.sandbox`. `session` is its key in the audit log."""

    def __init__(self, pipeline: gateway.Gateway) -> None:
        self._gateway = pipeline
        self.session = sessions.of_box(uuid.uuid4().hex)
        # This one, and those forked from it: they end together.
        self._sessions = [self.session]

    async def call(self, tool: str, **args: Any) -> ToolResult:
        """Run one tool in the sandbox.

        Args:
            tool: A built-in tool: `exec`, `process`, `read`, `write`, `edit`, `apply_patch`, `grep`, `glob` or `ls`.
            **args: The tool's own arguments.

        Returns:
            The result. A failed command, a refusal and a lost sandbox are results too, not exceptions.

        Example:
            >>> import asyncio, crabpot
            >>> async def main() -> None:
            ...     async with crabpot.sandbox() as box:
            ...         await box.call("write", path="greeting.txt", content="hello")
            ...         result = await box.call("exec", command="cat greeting.txt; exit 3")
            ...         print(result.stdout, result.exit_code, result.success)
            >>> asyncio.run(main())
            hello 3 False
        """
        return await self._gateway.call(self.session, tool, args)

    async def snapshot(self, name: str) -> None:
        """Keep all files that the sandbox has written under a name, until the box ends.

        Args:
            name: Letters, digits and `. _ -`, at most 64 of them.

        Raises:
            LayerError: The name is taken, or nothing was written yet.

        Example:
            >>> import asyncio, crabpot
            >>> async def main() -> None:
            ...     async with crabpot.sandbox() as box:
            ...         await box.call("write", path="note", content="before")
            ...         await box.snapshot("first")
            ...         await box.call("write", path="note", content="after")
            ...         await box.restore("first")
            ...         print((await box.call("exec", command="cat note")).stdout)
            >>> asyncio.run(main())
            before
        """
        await snapshots(self._gateway).save(self.session, name)

    async def restore(self, name: str) -> None:
        """Put a snapshot in the place of what was written since. The sandbox, which must be idle, opens anew.

        Args:
            name: The snapshot's name.

        Raises:
            LayerError: There is none of that name, or something runs in the sandbox.
        """
        await snapshots(self._gateway).restore(self.session, name)

    def remove_files(self, state: str) -> None:
        """Remove what is left of an ended box and of its forks; changes to a folder under review stay."""
        mine = frozenset(self._sessions)
        private_folders.remove(state, lambda kept: kept.scope_key in mine)
        for session in mine:
            forget_snapshots(state, session)

    async def fork(self) -> Box:
        """Return another box with a copy of all files that this one has written; both then go their own ways.

        Raises:
            LayerError: Nothing was written yet.

        Example:
            >>> import asyncio, crabpot
            >>> async def main() -> None:
            ...     async with crabpot.sandbox() as box:
            ...         await box.call("write", path="note", content="common")
            ...         other = await box.fork()
            ...         await other.call("write", path="note", content="its own")
            ...         print((await box.call("exec", command="cat note")).stdout)
            >>> asyncio.run(main())
            common
        """
        other = Box(self._gateway)
        self._sessions.append(other.session)
        other._sessions = self._sessions
        await snapshots(self._gateway).fork(self.session, other.session)
        return other


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
    return Snapshots(pipeline.execution, pipeline.settings)


def _as_arguments(error: ConfigError) -> ConfigError:
    """Return the error with the program's own argument names: there is no file, and no line in it."""
    return ConfigError(
        *(
            replace(problem, file=_NAME, line=None, path=problem.path.removeprefix(_SETTINGS))
            for problem in error.problems
        )
    )


def _refuse_others(fixed: dict[str, str], written: dict[str, Any]) -> None:
    """Raise ConfigError for settings that conflict with the fixed ones, instead of silently ignoring them."""
    problems = [
        Problem(
            message=f'is "{value}" here and cannot be {written[name]!r}',
            file=_NAME,
            path=name,
            hint="pass `folder` to use one of the host's"
            if name == "workspace"
            else "crabpot.Gateway has agents with modes and scopes",
        )
        for name, value in fixed.items()
        if written.get(name) not in (None, value)
    ]
    if problems:
        raise ConfigError(*problems)


@asynccontextmanager
async def sandbox(folder: str | None = None, *, state: str | None = None, **settings: Any) -> AsyncIterator[Box]:
    """Open one sandbox for the block, without agents and policy.

    Args:
        folder: The host folder to mount at /workspace, writable, or with `workspace="review"` under review. Without
            one, /workspace is a private folder that is deleted afterwards.
        state: The folder for sandboxes and the audit log. Without one, it is `$CRABPOT_STATE` or the user's own
            state folder.
        **settings: Settings of the configuration's `sandbox`, in snake case: `network="none"`,
            `limits={"memory": "1g"}`. `mode`, `scope` and `workspace` are fixed.

    Yields:
        The box. The sandbox itself opens at its first call.

    Raises:
        ConfigError: A setting is unknown or wrong, or conflicts with a fixed one.
        CrabpotError: The state folder or the audit log cannot be used.

    Example:
        >>> import asyncio, crabpot
        >>> async def main() -> None:
        ...     async with crabpot.sandbox(network="none", limits={"memory": "512m"}) as box:
        ...         result = await box.call("exec", command="python3 -c 'print(6 * 7)'")
        ...         print(result.stdout, end="")
        >>> asyncio.run(main())
        42
    """
    written = {camel(name): value for name, value in settings.items()}
    access = "none" if folder is None else "review" if written.get("workspace") == "review" else "rw"
    fixed = {"mode": "all", "scope": "session", "workspace": access}
    _refuse_others(fixed, written)
    written |= fixed
    defaults: dict[str, Any] = {"sandbox": written}
    if folder is not None:
        defaults["workspace"] = os.path.abspath(folder)
    wired = app.start(config=None, state=state, environ=os.environ)
    try:
        made = wired.gateway(json.dumps({"agents": {"defaults": defaults}}))
    except ConfigError as error:
        raise _as_arguments(error) from None
    box = Box(made)
    try:
        yield box
    finally:
        await made.close()
        await asyncio.to_thread(box.remove_files, wired.around.state)
