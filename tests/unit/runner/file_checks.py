"""What the tests of the file tools ask again and again."""

from __future__ import annotations

import os

import pytest

from crabpot.runner.core.failure import ToolError
from crabpot.runner.files import file_tools
from crabpot.runner.search import search_tools


def fails(tool, args, ctx) -> tuple[str, str]:
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(ToolError) as caught:
        tool(args, ctx)
    assert sorted(os.listdir("/proc/self/fd")) == before, "a descriptor was left open"
    return caught.value.code, caught.value.message


def code(tool, args, ctx) -> str:
    return fails(tool, args, ctx)[0]


def content(args, ctx) -> bytes:
    return file_tools.read(args, ctx)["payload"]


def leftovers(folder) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names if name.startswith(".crabpot-")]


def as_nobody(function) -> int:
    """Runs `function` in a child without privileges; its result as an exit status."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            status = function()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def peak_kib(function) -> int:
    """How much memory a child needs at most for `function`, beyond what it starts with."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with open("/proc/self/clear_refs", "w") as refs:
                refs.write("5")
            before = _high_water()
            function()
            os.write(writer, str(_high_water() - before).encode())
        finally:
            os._exit(0)
    os.close(writer)
    answer = os.read(reader, 100)
    os.close(reader)
    os.waitpid(pid, 0)
    return int(answer)


def _high_water() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def fill(ws, content: dict[str, str | bytes]) -> None:
    for path, text in content.items():
        target = ws / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())


def found(ctx, how, **args) -> list[tuple[str, int]]:
    matches = search_tools.grep(args, ctx, **how)["data"]["matches"]
    return [(match["path"], match["line"]) for match in matches]
