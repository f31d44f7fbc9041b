"""Sandboxes without agents: of one program, or found again by their name."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from crabpot import app
from crabpot.decide import sessions
from crabpot.doors.python.programs import this_program
from crabpot.doors.python.session import Session
from crabpot.errors import CallFailed, ConfigError, Problem
from crabpot.layers.snapshots import forget_all as forget_snapshots
from crabpot.sandboxes import private_folders
from crabpot.settings import camel

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from crabpot.gateway import Gateway

_NAME = "crabpot.sandbox()"
_SETTINGS = "agents.defaults.sandbox."
# A program's own sandboxes are not divided between agents: what bounds them is the machine.
_MANY = {"maxSandboxes": 100_000, "maxSandboxesPerAgent": 100_000}


class Box(Session):
    """One sandbox of a program's own, from `crabpot.sandbox`. `session` is its key in the audit log.

    Attributes:
        name: The name by which any program finds it again, or None: then its files go when it is closed.
        state: The folder for sandboxes and the audit log.
    """

    def __init__(self, shared: _Shared, key: str, *, name: str | None) -> None:
        super().__init__(shared.gateway, key)
        self._shared: _Shared | None = shared
        self._forks: list[Box] = []
        self.name = name
        self.state = shared.state

    async def fork(self) -> Box:
        """Return another box with a copy of all files that this one has written; both then go their own ways.

        It ends with this one, unless it is closed before.

        Raises:
            LayerError: Nothing was written yet.

        Example:
            >>> import asyncio, crabpot
            >>> async def main() -> None:
            ...     async with crabpot.sandbox() as box:
            ...         await box.write("note", "common")
            ...         other = await box.fork()
            ...         await other.write("note", "its own")
            ...         print(await box.read("note", text=True))
            >>> asyncio.run(main())
            common
        """
        if self._shared is None:
            raise CallFailed("conflict", "the box is closed")
        self._shared.count += 1
        other = Box(self._shared, this_program(self._shared.state).new_key(), name=None)
        self._forks.append(other)
        await self._snapshots.fork(self.session, other.session)
        return other

    async def close(self) -> None:
        """End the sandbox and what runs in it; safe to call twice. The files of a named one are kept."""
        shared, self._shared = self._shared, None
        if shared is None:
            return
        for fork in self._forks:
            await fork.close()
        await super().close()
        await shared.leave()
        if self.name is None:
            await asyncio.to_thread(_remove_files, shared.state, self.session)
            this_program(shared.state).closed()


def _remove_files(state: str, session: str) -> None:
    """Remove what is left of an ended box; changes to a folder under review stay."""
    private_folders.remove(state, lambda kept: kept.scope_key == session)
    forget_snapshots(state, session)


class Opening:
    """A sandbox to be opened: `async with` closes it after the block, `await` leaves that to the program."""

    def __init__(self, text: str, *, name: str | None, state: str | os.PathLike[str] | None) -> None:
        self._text = text
        self._name = name
        self._state = state
        self._box: Box | None = None

    def _open(self) -> Box:
        shared = _share(self._text, self._state)
        key = this_program(shared.state).new_key() if self._name is None else sessions.of_named_box(self._name)
        return Box(shared, key, name=self._name)

    def __await__(self) -> Generator[Any, None, Box]:
        yield from asyncio.sleep(0).__await__()
        return self._open()

    async def __aenter__(self) -> Box:
        self._box = self._open()
        return self._box

    async def __aexit__(self, *_: object) -> None:
        assert self._box is not None
        await self._box.close()


def sandbox(
    folder: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    state: str | os.PathLike[str] | None = None,
    tools: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Opening:
    """Open one sandbox, without agents: `async with` closes it after the block.

    All sandboxes of a program with the same settings share one gateway.

    Args:
        folder: The host folder to mount at /workspace, writable, or with `workspace="review"` under review. Without
            one, /workspace is a private folder that is deleted afterwards.
        name: Keeps the private folder, so that any program finds it again by this name. `crabpot.named_sandboxes` lists
            them, `crabpot.delete_sandbox` deletes one, and `prune` applies to them as to every private folder.
        state: The folder for sandboxes and the audit log. Without one, it is `$CRABPOT_STATE` or the user's own
            state folder.
        tools: The configuration's `tools`, as written there: `{"deny": ["exec"]}`. Without them every tool is allowed.
        **settings: Settings of the configuration's `sandbox`, in snake case: `network="none"`,
            `limits={"memory": "1g"}`. `mode`, `scope` and `workspace` are fixed.

    Returns:
        What opens it: `async with … as box`, or `box = await …`, which leaves `await box.close()` to the program. The
        sandbox itself opens at its first call.

    Raises:
        ConfigError: A setting is unknown or wrong, or conflicts with a fixed one.
        CrabpotError: The state folder or the audit log cannot be used.

    Example:
        >>> import asyncio, crabpot
        >>> async def main() -> None:
        ...     async with crabpot.sandbox(network="none", limits={"memory": "512m"}) as box:
        ...         result = await box.exec("python3 -c 'print(6 * 7)'", text=True)
        ...         print(result.stdout, end="")
        >>> asyncio.run(main())
        42
    """
    written = {camel(key): value for key, value in settings.items()}
    access = "none" if folder is None else "review" if written.get("workspace") == "review" else "rw"
    fixed = {"mode": "all", "scope": "session", "workspace": access}
    _refuse_others(fixed, written)
    defaults: dict[str, Any] = {"sandbox": written | fixed}
    if folder is not None:
        defaults["workspace"] = os.path.abspath(folder)
    policy = {} if tools is None else {"tools": dict(tools)}
    text = json.dumps({"agents": {"defaults": defaults}, "gateway": _MANY, **policy}, default=os.fspath)
    return Opening(text, name=name, state=state)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSandbox:
    """A named sandbox that is kept.

    Attributes:
        name: The name that a program gave it.
        created: When, in seconds since 1970.
        used: When it was last used.
    """

    name: str
    created: float
    used: float


def named_sandboxes(*, state: str | os.PathLike[str] | None = None) -> list[NamedSandbox]:
    """List the named sandboxes that are kept, whichever program made them.

    Example:
        >>> import asyncio, crabpot
        >>> async def main() -> None:
        ...     async with crabpot.sandbox(name="build 7") as box:
        ...         await box.write("result.txt", "done")
        ...     async with crabpot.sandbox(name="build 7") as again:
        ...         print(await again.read("result.txt", text=True))
        >>> asyncio.run(main())
        done
        >>> [one.name for one in crabpot.named_sandboxes()]
        ['build 7']
        >>> crabpot.delete_sandbox("build 7")
        True
    """
    found = []
    for kept in private_folders.listed(_state(state)):
        name = sessions.name_of_box(kept.scope_key)
        if name is not None:
            found.append(NamedSandbox(name=name, created=kept.created, used=kept.used))
    return found


def delete_sandbox(name: str, *, state: str | os.PathLike[str] | None = None) -> bool:
    """Delete a named sandbox and its files; False if there is none, or a program is using it right now."""
    key = sessions.of_named_box(name)
    return bool(private_folders.remove(_state(state), lambda kept: kept.scope_key == key))


class _Shared:
    """One gateway for all sandboxes with the same settings, of the same event loop."""

    def __init__(self, gateway: Gateway, users: dict[tuple[str, str], _Shared], key: tuple[str, str]) -> None:
        self.gateway = gateway
        self.state = key[0]
        self.count = 0
        self._users = users
        self._key = key

    async def leave(self) -> None:
        """Close the gateway with its last sandbox."""
        self.count -= 1
        if self.count == 0:
            del self._users[self._key]
            await self.gateway.close()


# By event loop, which they belong to; then by state folder and settings.
_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], _Shared]] = WeakKeyDictionary()


def _share(text: str, state: str | os.PathLike[str] | None) -> _Shared:
    users = _shared.setdefault(asyncio.get_running_loop(), {})
    wired = app.start(config=None, state=state, environ=os.environ)
    key = (wired.around.state, text)
    if key not in users:
        try:
            users[key] = _Shared(wired.gateway(text), users, key)
        except ConfigError as error:
            raise _as_arguments(error) from None
    users[key].count += 1
    return users[key]


def _state(state: str | os.PathLike[str] | None) -> str:
    return app.start(config=None, state=state, environ=os.environ).around.state


def _as_arguments(error: ConfigError) -> ConfigError:
    """Return the error with the program's own argument names: there is no file, and no line in it."""
    return ConfigError(
        *(
            problem._replace(file=_NAME, line=None, path=problem.path.removeprefix(_SETTINGS))
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
