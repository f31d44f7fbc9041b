"""`bench`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING

from crabpot import app
from crabpot.bench import figures
from crabpot.bench.run import run
from crabpot.doors.cli.frame import FAILED, OK
from crabpot.doors.measuring import overheads

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.bench.figures import Report
    from crabpot.doors.cli.frame import Frame
    from crabpot.gateway import Gateway


def bench(_frame: Frame, options: Namespace) -> int:
    """Measure on a state of its own; exit with 1 if a row is missed."""

    def open_gateway(text: str, state: str) -> Gateway:
        return app.start(config=None, state=state, environ=os.environ).gateway(text)

    def progress(what: str) -> None:
        print(f"crabpot: measuring {what}", file=sys.stderr)

    report = asyncio.run(run(open_gateway, progress, overheads, full=options.full))
    if options.json:
        print(json.dumps(report.as_json(), indent=1))
    else:
        _show(report)
    if options.markdown:
        with open(options.markdown, "w", encoding="utf-8") as stream:
            stream.write(figures.markdown(report, "crabpot bench" + (" --full" if options.full else "")))
    return FAILED if any(figure.holds is False for figure in report.figures) else OK


def _show(report: Report) -> None:
    print("; ".join(f"{name} {value}" for name, value in report.machine.items()))
    for figure in report.figures:
        beside = figure.missing if figure.other is None else f"{figure.other.name} {figures.amount(figure.other)}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f} × ({figure.hold()})"
        verdict = {True: "held", False: "MISSED", None: "-"}[figure.holds]
        print(f"{verdict:<7} {figure.what:<48} {figures.amount(figure.ours):>12}   {beside:<44} {ratio}")
