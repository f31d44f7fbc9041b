"""The table of tools and how each runs. The modules behind them are imported when first used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, Callable, Protocol

    Function = Callable[[dict[str, Any], Any], dict[str, Any]]

    class Writer(Protocol):
        """Takes the content of a file piece by piece; the file appears whole after `commit`, and not at all before."""

        def write(self, data: bytes) -> object:
            """Add the next piece."""

        def commit(self) -> dict[str, Any]:
            """Finish the file; return what the tool says about it."""
            ...

        def abort(self) -> None:
            """Abandon the file."""


class Tools:
    """The tools of every sandbox. Tests of the server pass another table in its place."""

    # Short, so they run between two rounds of the loop.
    inline: tuple[str, ...] = (
        *("read", "write", "edit", "ls", "apply_patch"),
        *("fs.stat", "fs.ls", "fs.mkdir", "fs.move", "fs.realpath"),
    )
    # May run for ever (a pattern that backtracks, a huge folder), so they run in a process that can be killed.
    forked: tuple[str, ...] = ("grep", "glob", "fs.remove")

    def load(self) -> None:
        """Import what stands behind most calls, for a process whose children will share it."""
        import re  # noqa: F401, PLC0415
        import warnings  # noqa: F401, PLC0415

        from ..files import file_tools, operations, patch  # noqa: F401, PLC0415
        from ..search import search_tools  # noqa: F401, PLC0415
        from . import forked  # noqa: F401, PLC0415

    def function(self, name: str) -> Function:
        """Return the function of an inline or forked tool."""
        if name in self.forked:
            # All before the fork: a child that had to import `re` first would take ten times as long.
            from ..files import openat2  # noqa: PLC0415

            openat2.load()
        if name == "apply_patch":
            from ..files import patch  # noqa: PLC0415

            return patch.apply_patch
        if name in ("grep", "glob"):
            import re  # noqa: F401, PLC0415
            import warnings  # noqa: F401, PLC0415

            from ..search import search_tools  # noqa: PLC0415

            return search_tools.grep if name == "grep" else search_tools.glob
        if name.startswith("fs."):
            from ..files import operations  # noqa: PLC0415

            return operations.OPERATIONS[name]
        from ..files import file_tools  # noqa: PLC0415

        return file_tools.TOOLS[name]

    def context(self, workspace: str, roots: tuple[str, ...]) -> Any:
        """Return what file tools need to know about the sandbox."""
        # Not via `files`: a sandbox that only ever runs commands never loads the file tools.
        from ..files.context import Context  # noqa: PLC0415

        return Context(workspace, roots)

    def open_directory(self, context: Any, path: str) -> int:
        """Return a descriptor of a folder that a command may start in."""
        from ..files.context import open_directory  # noqa: PLC0415

        return open_directory(context, path)

    def stream_read(self, args: dict[str, Any], context: Any) -> Generator[bytes, None, dict[str, Any]]:
        """Yield a file in pieces, and return at its end what a whole read says about it."""
        from ..files import file_tools  # noqa: PLC0415

        return file_tools.stream_read(args, context)

    def input_writer(self, args: dict[str, Any], context: Any) -> Writer:
        """Return the writer of a file whose content is the input of a call."""
        from ..files import file_tools  # noqa: PLC0415

        return file_tools.InputWriter(args, context)


class SharedTools(Tools):
    """The same where many clients share the runner: whatever reads what an agent left there may take long."""

    inline = ("write",)
    forked = (*(name for name in Tools.inline if name != "write"), *Tools.forked)


def is_truncated(result: dict[str, Any]) -> bool:
    """Return whether a tool left something out of its result."""
    data = result.get("data")
    return type(data) is dict and data.get("truncated") is True
