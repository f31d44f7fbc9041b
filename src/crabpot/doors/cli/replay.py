"""`audit replay`: a session as a story in the terminal."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from crabpot.approvals.display import line
from crabpot.audit.reading import AuditReader
from crabpot.doors.cli.frame import OK
from crabpot.doors.cli.show import Pen, wants_colour
from crabpot.doors.review import visible_diff
from crabpot.host_commands.review.replaying import story

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from crabpot.doors.cli.frame import Frame

_GOOD = ("ok", "allowed")


def replay(frame: Frame, options: Namespace) -> int:
    """Print the session as a story."""
    chapters = asyncio.run(_chapters(frame, options.session))
    if options.json:
        print(json.dumps({"session": options.session, "chapters": chapters}, indent=2))
        return OK
    pen = Pen(colour=wants_colour(sys.stdout))
    for chapter in chapters:
        print("\n".join(_told(chapter, pen)))
    return OK


async def _chapters(frame: Frame, session: str) -> list[dict[str, Any]]:
    app = frame.app()
    gateway = app.gateway()
    try:
        return await story(gateway.review("the terminal"), session, AuditReader(app.around.state).all())
    finally:
        await gateway.close()


def _told(chapter: dict[str, Any], pen: Pen) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(chapter["time"]))
    outcome = chapter["outcome"]
    style = "green" if outcome.startswith(_GOOD) else "yellow"
    took = "" if chapter["duration_ms"] is None else f" in {chapter['duration_ms']:.0f} ms"
    where = f" [{chapter['where']}]" if chapter["where"] else ""
    yield f"{pen('dim', when)} {line(chapter['what'])}{where} {pen(style, line(outcome))}{took}"
    if chapter["because"]:
        yield f"    {pen('dim', line(chapter['because']))}"
    if chapter["changed"]:
        yield f"    changed {', '.join(map(line, chapter['changed']))}"
    if chapter["unkept"]:
        yield f"    not kept: {', '.join(map(line, chapter['unkept']))}"
    for row in visible_diff(chapter["diff"]).splitlines():
        yield f"    {row}"
