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
from crabpot.sandboxes import private_folders
from crabpot.settings import camel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from crabpot.approvals.desk import Approver
    from crabpot.approvals.requests import Answer, Request
    from crabpot.model import ToolResult

    Callback = Callable[[Request], Awaitable[Answer | None]]

_NAME = "crabpot.sandbox()"
_SETTINGS = "agents.defaults.sandbox."


class Gateway(gateway.Gateway):
    """The gateway, and how a program opens one."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: str | None = None,
        *,
        state: str | None = None,
        approver: Approver | Callback | None = None,
    ) -> AsyncIterator[gateway.Gateway]:
        """Load a configuration, give the gateway over it, and leave nothing behind.

        `approver` answers for the operator: `async def (request) -> Answer | None`, or an object with such an `ask`.
        Without one, a command that needs approval is denied at once.
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
    """An approver that is a function."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback

    async def ask(self, request: Request) -> Answer | None:
        """Let it answer."""
        return await self._callback(request)


class Box:
    """One sandbox of a program's own."""

    def __init__(self, pipeline: gateway.Gateway) -> None:
        self._gateway = pipeline
        self.session = sessions.of_box(uuid.uuid4().hex)

    async def call(self, tool: str, **args: Any) -> ToolResult:
        """Run one tool in it."""
        return await self._gateway.call(self.session, tool, args)


def _as_arguments(error: ConfigError) -> ConfigError:
    """Tell of what was wrong by the names that the program wrote: there is no file, and no line in it."""
    return ConfigError(
        *(
            replace(problem, file=_NAME, line=None, path=problem.path.removeprefix(_SETTINGS))
            for problem in error.problems
        )
    )


def _refuse_others(fixed: dict[str, str], written: dict[str, Any]) -> None:
    """What makes it a sandbox of a program's own cannot be set otherwise, and is not set otherwise in silence."""
    problems = [
        Problem(
            message=f'is "{value}" here and cannot be {written[name]!r}',
            file=_NAME,
            path=name,
            hint="give `folder` to have one of the host's"
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
    """Give a sandbox without agents and policy.

    `folder` is the host folder at /workspace, writable; without it there is a private one that is thrown away. The
    other names are those of the configuration's `sandbox`: `network="none"`, `limits={"memory": "1g"}`; but `mode`,
    `scope` and `workspace` are what makes it one, and a ConfigError if they say otherwise.
    """
    written = {camel(name): value for name, value in settings.items()}
    fixed = {"mode": "all", "scope": "session", "workspace": "rw" if folder else "none"}
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
        await asyncio.to_thread(private_folders.remove, wired.around.state, lambda kept: kept.scope_key == box.session)
