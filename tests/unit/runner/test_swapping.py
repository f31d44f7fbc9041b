"""A second process swaps a folder for a link to outside all the time: nothing outside is read, written or left behind."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

import pytest

from crabpot.runner.core.failure import ToolError
from crabpot.runner.files import file_tools, patch
from crabpot.runner.search import search_tools

OPERATIONS = 10_000
RENAME_EXCHANGE = 2
EXPECTED = {"outside", "not_found", "no_match", "conflict", "exists"}


def swap_for_ever(ws: str, outside: str) -> None:
    """In a process of its own: `d` is now the real folder, now one of two links that lead out, in single steps."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.chdir(ws)
    os.symlink(outside, "link-out")
    os.symlink("../outside", "link-round")
    while True:
        for link in (b"link-out", b"link-round"):
            for _ in range(2):
                if libc.renameat2(-100, b"d", -100, link, RENAME_EXCHANGE):
                    raise OSError(ctypes.get_errno(), "renameat2")


@pytest.fixture
def swapped(tmp_path):
    """A workspace whose folder `d` does not keep still, and the folder outside that it would lead to."""
    ws, outside = tmp_path / "ws", tmp_path / "outside"
    for folder in (ws / "d/sub", outside / "sub"):
        folder.mkdir(parents=True)
    for name in ("f", "sub/f"):
        (ws / "d" / name).write_text("inside\n")
        (outside / name).write_text("SECRET\n")
    (outside / "outside-only").write_text("SECRET\n")
    pid = os.fork()
    if pid == 0:
        try:
            swap_for_ever(str(ws), str(outside))
        finally:
            os._exit(0)
    alive = [pid]

    def stop() -> None:
        for each in alive:
            os.kill(each, signal.SIGKILL)
            assert os.WIFSIGNALED(os.waitpid(each, 0)[1]), "the swapping had ended by itself"
        alive.clear()

    try:
        yield ws, outside, stop
    finally:
        stop()


def snapshot(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


PATCH = "*** Begin Patch\n*** Update File: d/f\n@@\n-inside\n+inside\n+more\n*** Add File: d/sub/new\n+x\n*** End Patch"
UNPATCH = "*** Begin Patch\n*** Update File: d/f\n@@\n inside\n-more\n*** Delete File: d/sub/new\n*** End Patch"


def operations(number: int) -> list[Any]:
    return [
        (file_tools.read, {"path": "d/f"}),
        (file_tools.read, {"path": "d/sub/f"}),
        (file_tools.write, {"path": "d/f", "content": "inside\n"}),
        (file_tools.write, {"path": f"d/new-{number % 7}/g", "content": "inside\n"}),
        (file_tools.write, {"path": "d/sub/f", "content": "inside\n", "append": True}),
        (file_tools.edit, {"path": "d/sub/f", "old": "inside\n", "new": "inside\ninside\n", "all": number % 50 == 0}),
        (file_tools.write, {"path": "d/sub/f", "content": "inside\n"}),
        (patch.apply_patch, {"patch": PATCH}),
        (patch.apply_patch, {"patch": UNPATCH}),
        (file_tools.ls, {"path": "d", "all": True}),
    ]


@pytest.mark.parametrize("kernel", [True, False], ids=["openat2", "walk"])
def test_ten_thousand_file_operations_stay_inside(kernel, swapped) -> None:
    ws, outside, stop_swapping = swapped
    before = snapshot(outside)
    context = file_tools.Context(str(ws), (str(ws),), kernel=kernel)
    codes: dict[str, int] = {}
    for number in range(OPERATIONS // 10):
        for tool, args in operations(number):
            try:
                answer = tool(args, context)
            except ToolError as error:
                codes[error.code] = codes.get(error.code, 0) + 1
                continue
            codes["success"] = codes.get("success", 0) + 1
            assert b"SECRET" not in answer.get("payload", b"")
            if tool is file_tools.ls:
                assert "outside-only" not in {entry["name"] for entry in answer["data"]["entries"]}
    context.close()
    stop_swapping()
    assert snapshot(outside) == before
    assert [*ws.rglob(".crabpot-*"), *outside.rglob(".crabpot-*")] == []
    assert set(codes) - {"success"} <= EXPECTED | {"ambiguous_match"}, codes
    assert codes["success"] > OPERATIONS // 1000, codes
    assert codes.get("outside", 0) > 0, codes


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"few": 0}, {"ripgrep": False}])
def test_searches_report_nothing_from_outside(how, swapped) -> None:
    ws, _, _ = swapped
    context = file_tools.Context(str(ws), (str(ws),))
    for _ in range(60 if how.get("ripgrep", True) else 400):
        matches = search_tools.grep({"pattern": "inside|SECRET"}, context, **how)["data"]["matches"]
        assert {match["text"] for match in matches} <= {"inside"}
        paths = search_tools.glob({"pattern": "d/**"}, context)["data"]["paths"]
        assert set(paths) <= {"d/f", "d/sub/f", "d"}
    context.close()
