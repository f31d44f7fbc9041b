"""`crabpot bench`: measure, show, and write the page with its plots."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from bench import figures, page
from bench.figures import Report
from bench.run import BenchOptions, run
from crabpot import __version__, app
from crabpot.doors.cli.frame import FAILED, OK, UsageError
from crabpot.doors.local import client
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from argparse import Namespace
    from contextlib import AsyncExitStack

    from bench.doors import Remote
    from crabpot.doors.cli.frame import Frame
    from crabpot.gateway import Gateway
    from crabpot.model import ToolResult


def bench(_frame: Frame, options: Namespace) -> int:
    """Measure on throw-away states, or read earlier results; exit with 1 if a row is missed."""
    reports = _earlier(options.results) if options.results else [_measured(options)]
    raw = json.dumps([report.as_json() for report in reports], separators=(",", ":"))
    if options.json:
        print(raw)
    else:
        for report in reports:
            _show(report)
    if options.docs:
        _write(options.docs, {"benchmarks.json": raw + "\n", **page.files(reports)})
    margin = figures.MARGIN if options.guard else 1.0
    return FAILED if any(one.within(margin) is False for report in reports for one in report.figures) else OK


def _earlier(paths: list[str]) -> list[Report]:
    reports = []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as stream:
                reports += [Report.from_json(one) for one in json.load(stream)]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} holds no results of `crabpot bench --json`: {error}") from None
    return reports


def _measured(options: Namespace) -> Report:
    def open_gateway(text: str, state: str) -> Gateway:
        return app.start(config=None, state=state, environ=os.environ).gateway(text)

    def progress(what: str) -> None:
        print(f"crabpot: {what}", file=sys.stderr, flush=True)

    cache = options.cache or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "crabpot-bench"
    )
    plan = BenchOptions(
        open_gateway=open_gateway,
        reach=_reach,
        progress=progress,
        environ=os.environ,
        version=__version__,
        cache=cache,
        full=options.full,
        install=options.peers,
        only=tuple(options.only or ()),
        count=options.count,
        curve=options.curve,
    )
    return asyncio.run(run(plan))


async def _reach(state: str, stack: AsyncExitStack) -> Remote:
    remote = await client.connect(state)
    if remote is None:
        raise CrabpotError("`crabpot serve` cannot be reached")
    stack.push_async_callback(remote.close)

    async def call(session: str, tool: str, args: dict[str, Any]) -> ToolResult:
        return await remote.call(session, tool, args)

    return call


def _write(folder: str, files: dict[str, str]) -> None:
    """Write the page, its results and its plots; a plot of an earlier page that this one does not show goes."""
    plots = os.path.join(folder, page.FOLDER)
    for name in os.listdir(plots) if os.path.isdir(plots) else ():
        if name.endswith(".svg") and f"{page.FOLDER}/{name}" not in files:
            os.unlink(os.path.join(plots, name))
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)


def _show(report: Report) -> None:
    print("; ".join(f"{name} {value}" for name, value in report.machine.items()))
    for figure in report.figures:
        beside = figure.missing if figure.other is None else f"{figure.other.name} {figures.amount(figure.other)}"
        ours = "" if figure.other is None else figures.amount(figure.ours)
        ratio = "" if figure.ratio is None else f"{figure.ratio:.3g} × ({figure.hold()})"
        verdict = {True: "held", False: "MISSED", None: "-"}[figure.holds]
        print(f"{verdict:<7} {figure.what:<48} {ours:>10}   {beside:<40} {ratio}")
    for name, peer in report.peers.items():
        if "absent" in peer:
            print(f"-       {name} took no part: {peer['absent']}")
