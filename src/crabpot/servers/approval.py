"""What an operator is shown before a server's words are pinned: what changed, refused names, suspicions. Pure."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING

from crabpot.approvals.display import line
from crabpot.servers import naming, suspicions
from crabpot.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crabpot.servers.pins import Described, Pin
    from crabpot.servers.sealing import Lock

_LONGEST = 2000
_MOST_PARTS = 20


def report(tools: Mapping[str, Described], pin: Pin | None, others: Iterable[str]) -> Iterator[str]:
    """Yield the lines: each tool that is new, changed or gone, whole or as a diff, with its marks below it."""
    before = {} if pin is None else pin.tools
    changed = dict.fromkeys(tools, "new") if pin is None else pin.changed(tools)
    refused = naming.refused(tools, others)
    for name, how in changed.items():
        yield f"{how}: {line(name)}"
        old, new = _lines(before.get(name)), _lines(tools.get(name))
        if how == "changed":
            yield from (f"  {text}" for text in list(difflib.unified_diff(old, new, lineterm="", n=1))[2:])
        elif how == "new":
            yield from (f"  {text}" for text in new)
        yield from (f"  ! {line(mark)}" for mark in suspicions.marks(tools.get(name)))
        if name in refused:
            yield f"  ! refused: {refused[name]}"
    same = len([name for name in tools if name not in changed])
    if same:
        yield f"as approved before: {same}"


def parts(lock: Lock | None, before: Lock | None) -> Iterator[str]:
    """Yield what a package was resolved to, and what of that is another than was approved before."""
    if lock is None:
        return
    now, then = lock["parts"], {} if before is None else before["parts"]
    yield f"package of {lock['manager']}: {counted(len(now), 'part')}, all files sha256 {lock['tree']}"
    if before is not None and lock["tree"] == before["tree"]:
        return
    news = {name: one for name, one in now.items() if then.get(name) != one}
    for name, (version, digest) in list(news.items())[:_MOST_PARTS]:
        was = f" (was {line(then[name][0])})" if name in then else ""
        yield f"  {line(name)} {line(version)}{was} {line(digest)[:27]}…"
    if len(news) > _MOST_PARTS:
        yield f"  and {len(news) - _MOST_PARTS} more"
    yield from (f"  gone: {line(name)}" for name in [one for one in then if one not in now][:_MOST_PARTS])


def _lines(described: Described | None) -> list[str]:
    """Return a tool's words, a line for each, so that nothing in them deceives the eye."""
    if described is None:
        return []
    said = []
    for key, value in described.items():
        if key == "name":
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True)
        shown = [_cut(one) for one in text.split("\n")]
        said += [f"{key}: {shown[0]}", *(f"  {one}" for one in shown[1:])]
    return said


def _cut(text: str) -> str:
    shown = line(text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}… ({len(text)} characters)"
