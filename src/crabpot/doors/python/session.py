"""One session of a gateway, with a method for everything that a program does in its sandbox."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from crabpot.decide import placement, sessions
from crabpot.doors import ports
from crabpot.doors.python.files import Files
from crabpot.doors.python.long_commands import carried
from crabpot.doors.python.results import CommandResult
from crabpot.doors.python.streams import Collected, sink_of, source_of
from crabpot.errors import CallFailed
from crabpot.model import Place
from crabpot.sandboxes.snapshots import Snapshots
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabpot.doors.python.files import Timeout
    from crabpot.doors.python.streams import Input, Taker
    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult
    from crabpot.settings import AgentSettings


class Session(Files):
    """One session of a gateway. The same policy, limits and audit log apply as to an agent's calls.

    Methods for files raise CallFailed, which is also the OSError of the same meaning; `exec` and `call` return their
    failures. Paths are relative to the workspace, or absolute as seen inside.
    """

    def __init__(self, gateway: Gateway, session: str, *, sender: str | None = None) -> None:
        self._gateway = gateway
        self._sender = sender
        self.session = session

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
        return await self._call(tool, args)

    @overload
    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Input | None = None,
        timeout: Timeout = "default",  # noqa: ASYNC109  the sandbox keeps it, not the event loop
        text: Literal[False] = False,
        merged: bool = False,
        detach: bool = False,
        tty: bool | Mapping[str, int] = False,
        sink: Taker | None = None,
    ) -> CommandResult[bytes]: ...

    @overload
    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Input | None = None,
        timeout: Timeout = "default",  # noqa: ASYNC109  the sandbox keeps it, not the event loop
        text: Literal[True],
        merged: bool = False,
        detach: bool = False,
        tty: bool | Mapping[str, int] = False,
        sink: Taker | None = None,
    ) -> CommandResult[str]: ...

    async def exec(  # noqa: PLR0913  each option is the caller's choice
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Input | None = None,
        timeout: Timeout = "default",  # noqa: ASYNC109  the sandbox keeps it, not the event loop
        text: bool = False,
        merged: bool = False,
        detach: bool = False,
        tty: bool | Mapping[str, int] = False,
        sink: Taker | None = None,
    ) -> CommandResult[bytes] | CommandResult[str]:
        """Run a command and wait for its end.

        Args:
            command: Shell text, or a program and its arguments as a list, without a shell.
            cwd: The folder to start in; without one, the workspace.
            env: Environment variables to add.
            stdin: Its input: bytes, text, an open file, or pieces of bytes.
            timeout: The time limit in seconds. Without one, the configured `limits.timeLimit`; None is "no limit but
                the ceiling", `limits.timeCeiling`.
            text: Return the output as text instead of bytes; what is not UTF-8 is replaced.
            merged: Take standard error as standard output, in the order in which it was written.
            detach: Let what the command leaves running live until the sandbox ends.
            tty: Run it on a terminal; `{"rows": 24, "cols": 80}` sets its size.
            sink: Called with `(stream, data)` while the command runs, and given all of its output, however much, at
                its own pace. Without one, each output is kept up to `limits.output`.

        Returns:
            The exit code and the output. A command that fails is a result, and so is a refusal or a time limit.

        Example:
            >>> import asyncio, crabpot
            >>> async def main() -> None:
            ...     async with crabpot.sandbox() as box:
            ...         print((await box.exec("printf out; printf err >&2; exit 3", merged=True)).stdout)
            ...         print((await box.exec(["echo", "$HOME *"], text=True)).stdout, end="")
            ...         print((await box.exec("wc -c", stdin=bytes(1000), text=True)).stdout, end="")
            >>> asyncio.run(main())
            b'outerr'
            $HOME *
            1000
        """
        given = command if isinstance(command, str) else list(command)
        args: dict[str, Any] = {"command": await carried(given, self.write)}
        size = tty if isinstance(tty, bool) else dict(tty)
        options = {"cwd": cwd, "env": dict(env) if env else None, "detach": detach, "tty": size}
        args |= {name: value for name, value in options.items() if value not in (None, False)}
        args |= self._limit(timeout)
        collected = Collected()
        streams = Streams(
            source=None if stdin is None else source_of(stdin),
            sink=collected.take if sink is None else sink_of(sink),
            paced=sink is not None,
            merged=merged,
        )
        result = await self._call("exec", args, streams)
        stdout, stderr = (collected.bytes(name) for name in ("stdout", "stderr"))
        if text:
            return _completed(result, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"))
        return _completed(result, stdout, stderr)

    async def snapshot(self, name: str) -> None:
        """Keep all files that the sandbox has written under a name; those of a box go when it ends.

        Args:
            name: Letters, digits and `. _ -`, at most 64 of them.

        Raises:
            LayerError: The name is taken, or nothing was written yet.

        Example:
            >>> import asyncio, crabpot
            >>> async def main() -> None:
            ...     async with crabpot.sandbox() as box:
            ...         await box.write("note", "before")
            ...         await box.snapshot("first")
            ...         await box.write("note", "after")
            ...         await box.restore("first")
            ...         print(await box.read("note", text=True))
            >>> asyncio.run(main())
            before
        """
        await self._snapshots.save(self.session, name)

    async def restore(self, name: str) -> None:
        """Put a snapshot in the place of what was written since. The sandbox, which must be idle, opens anew.

        Args:
            name: The snapshot's name.

        Raises:
            LayerError: There is none of that name, or something runs in the sandbox.
        """
        await self._snapshots.restore(self.session, name)

    async def fork(self) -> Session:
        """Return a new session of the same agent, with a copy of all files that this one has written.

        Raises:
            LayerError: Nothing was written yet, or another session would share the sandbox.
        """
        other = Session(self._gateway, f"{self.session}:fork-{secrets.token_hex(4)}", sender=self._sender)
        await self._snapshots.fork(self.session, other.session)
        return other

    async def port(self, number: int) -> str:
        """Return the address on this machine's loopback that leads to a port inside, such as `127.0.0.1:40123`.

        It stays open until the sandbox ends. Whether a server listens inside shows when somebody connects.

        Args:
            number: The port inside, from 1 to 65535.

        Raises:
            CrabpotError: It is no port, or the sandbox cannot be opened.
        """
        await self.stat(".")
        rows = await ports.answer(self._gateway, {"action": "open", "session": self.session, "port": number})
        address = next(row["address"] for row in rows if row["port"] == number)
        return str(address).removeprefix("http://")

    @property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self._gateway.execution, self._gateway.settings, self._gateway.audit)

    async def close(self) -> None:
        """End the session's sandbox for all who share it. Its files stay, and the next call opens another."""
        scope_key = placement.decide(*self._placed).answer.scope_key
        if scope_key is not None:
            await self._gateway.execution.fleet.stop((Place.SANDBOX, scope_key))

    async def __aenter__(self) -> Self:
        """Return itself; the block's end closes it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    def _limit(self, timeout: Timeout) -> dict[str, float]:
        if timeout == "default":
            return {}
        return {"timeout": self.time_ceiling if timeout is None else timeout}

    @property
    def time_ceiling(self) -> float:
        """Return the most seconds that a call may take."""
        return self._placed[1].sandbox.limits.time_ceiling

    @property
    def _placed(self) -> tuple[sessions.Session, AgentSettings]:
        """Return what its place is decided by."""
        settings = self._gateway.settings
        key = sessions.parse(self.session, default_agent=settings.default_agent)
        return key, settings.agent(key.agent)

    async def _call(self, tool: str, args: Mapping[str, Any], streams: Streams | None = None) -> ToolResult:
        return await self._gateway.call(self.session, tool, args, sender=self._sender, streams=streams)


def _completed(result: ToolResult, stdout: Any, stderr: Any) -> CommandResult[Any]:
    process = (result.data or {}).get("process")
    return CommandResult(
        exit_code=result.exit_code,
        stdout=stdout,
        stderr=stderr,
        error=result.error,
        truncated=result.truncated,
        process=process if isinstance(process, str) else None,
        place=result.place.value,
        duration_ms=result.duration_ms,
    )


__all__ = ["CallFailed", "Session"]
