"""Every exception Crabpot raises on purpose.

CrabpotError                 says what was refused, by which rule or file, and what to do next
├── ConfigError              the configuration did not load; nothing runs on it
├── SessionError             a session key that cannot name a session
├── HostRefused              a command that may not start on the host, or not any more
├── LayerError               a layer that is missing, unreadable or over another folder; nothing in it is lost
│   └── LayerBusy            it is mounted, or being applied, right now
├── UnsupportedFramework     an integration's framework is missing or of another version; also an ImportError
├── CallFailed               a file method of the Python API failed; also the OSError of the same meaning
└── SandboxError             the sandbox failed, as opposed to the command in it
    ├── SandboxUnavailable   none could be opened; the call fails, it never falls back to the host
    └── SandboxLost          it died, or broke the wire, while a call was in it
"""

from __future__ import annotations

from typing import NamedTuple


class CrabpotError(Exception):
    """The base of all errors. Its message is for a person: what was refused, why, and what to do next.

    Opening raises these; a call returns them as the `error` of its result instead.
    """


class UnsupportedFramework(CrabpotError, ImportError):
    """A framework is not installed, or of a version that its integration was not made for."""


class Problem(NamedTuple):
    """One thing wrong with a configuration, and where."""

    message: str
    file: str = ""
    line: int | None = None
    path: str = ""
    hint: str = ""

    def __str__(self) -> str:
        """Return `file:line: config.path: message (hint)`, without the parts that are unknown."""
        where = f"{self.file}:{self.line}" if self.line is not None else self.file
        parts = [part for part in (where, self.path, self.message) if part]
        return ": ".join(parts) + (f" ({self.hint})" if self.hint else "")


class ConfigError(CrabpotError):
    """The configuration did not load; nothing runs on it.

    Attributes:
        problems: Everything that is wrong, each with its file, line and path where known.

    Example:
        >>> import asyncio, crabpot
        >>> async def main() -> None:
        ...     async with crabpot.sandbox(limits={"memory": "lots"}):
        ...         pass
        >>> try:
        ...     asyncio.run(main())
        ... except crabpot.ConfigError as error:
        ...     print(error.problems[0].path, error.problems[0].message)
        limits.memory must be a size such as 512, "100m" or "2g"
    """

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class SessionError(CrabpotError):
    """A session key that cannot name a session."""


class HostRefused(CrabpotError):
    """A command that may not start on the host, or not any more; `code` is the one of its result."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class LayerError(CrabpotError):
    """A layer that is missing, unreadable or over another folder; nothing in it is lost."""


class LayerBusy(LayerError):
    """A layer that is mounted, or being applied, right now."""


class CallFailed(CrabpotError):
    """A method of the Python API could not do what it was asked; `code` is the one of the call's result.

    Where Python has an OSError of the same meaning, what is raised is one too: `except FileNotFoundError` works.

    Attributes:
        code: For programs, such as `not_found`, `denied` or `outside` (docs/doors.md).
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class SandboxError(CrabpotError):
    """The sandbox failed, as opposed to the command in it."""


class SandboxUnavailable(SandboxError):
    """No sandbox could be opened; the call fails, it never falls back to the host."""


class SandboxLost(SandboxError):
    """The sandbox died, or broke the wire, while a call was in it."""
