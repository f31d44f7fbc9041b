"""Search a folder in this process, and print how many bytecode instructions that took: FOLDER grep|glob PATTERN."""

from __future__ import annotations

import sys
from typing import Any

from crabpot.runner.files.context import Context
from crabpot.runner.search import search_tools

counted = [0]


def count(frame: Any, event: str, _: Any) -> Any:
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    counted[0] += event == "opcode"
    return count


folder, tool, pattern = sys.argv[1:]
context = Context(folder, [folder])
more = {"ripgrep": False} if tool == "grep" else {}
for tracing in (None, count):  # The first round imports and compiles.
    sys.settrace(tracing)
    found = getattr(search_tools, tool)({"pattern": pattern}, context, **more)
    sys.settrace(None)
assert any(found["data"].values()), found
print(counted[0])
