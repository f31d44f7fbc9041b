"""`doctor`: examine the machine, line by line, and print the commands that fix it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

from crabpot.doors.cli.frame import FAILED, OK
from crabpot.doors.cli.show import Pen, visible, wants_colour
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator

    from crabpot.doors.cli.frame import Frame
    from crabpot.proof.doctor.examination import Doctor
    from crabpot.proof.doctor.lines import Line

_ANSWER_S = 5.0
_STYLES = {"ok": "green", "warning": "yellow", "problem": "red"}


def doctor(frame: Frame, options: Namespace) -> int:
    """Examine the machine; return 1 if there is a problem."""
    app = frame.app()
    lines = asyncio.run(_examine(app.doctor(), app.around.state, show=not options.json))
    if options.json:
        print(json.dumps([line.as_json() for line in lines], indent=2))
    else:
        count = {state: sum(line.state == state for line in lines) for state in _STYLES}
        totals = (counted(count[state], state) for state in ("warning", "problem"))
        print(f"\n{count['ok']} ok, {', '.join(totals)}")
    return FAILED if any(line.state == "problem" for line in lines) else OK


async def _gateway(state: str) -> AsyncIterator[Line]:
    """Yield the line of the gateway that serves or lingers, if there is one."""
    from crabpot.doors.cli.show import gateway  # noqa: PLC0415  as below
    from crabpot.doors.local.client import connect  # noqa: PLC0415  most examinations find none
    from crabpot.proof.doctor.lines import Line  # noqa: PLC0415

    remote = await connect(state, timeout_s=_ANSWER_S)
    if remote is not None:
        try:
            yield Line(area="crabpot", name="gateway", state="ok", says=gateway(await remote.inquire("gateway")))
        finally:
            await remote.close()


async def _lines(doctor: Doctor, state: str) -> AsyncIterator[Line]:
    async for line in doctor.examine():
        yield line
    async for line in _gateway(state):
        yield line


async def _examine(doctor: Doctor, state: str, *, show: bool) -> list[Line]:
    lines: list[Line] = []
    pen = Pen(colour=wants_colour(sys.stdout))
    async for line in _lines(doctor, state):
        if show:
            if not lines or lines[-1].area != line.area:
                print(("\n" if lines else "") + pen("bold", line.area))
            print(
                f"  {pen(_STYLES[line.state], f'{line.state:<7}')}  {line.name:<15}  {visible(line.says)}", flush=True
            )
            for part in (line.fix or "").splitlines():
                print(f"           {'':<15}  {pen('dim', '→')} {visible(part)}")
        lines.append(line)
    return lines
