"""`verify`: attack a sandbox as a session gets it, and show what came back."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import sys
import time
from typing import TYPE_CHECKING

from crabpot import __version__
from crabpot.audit.store import AuditLog
from crabpot.config.load import read_text
from crabpot.doors.cli.frame import FAILED, OK, UsageError
from crabpot.doors.cli.reports import auditors_page, junit
from crabpot.doors.cli.show import visible, wants_colour
from crabpot.errors import CrabpotError
from crabpot.proof.verify import trial
from crabpot.proof.verify.catalogue import chosen
from crabpot.proof.verify.live import look
from crabpot.proof.verify.report import Report
from crabpot.proof.verify.run import targets, verify
from crabpot.state.ownership import take
from crabpot.wording import counted

if TYPE_CHECKING:
    from argparse import Namespace

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.gateway import Gateway
    from crabpot.proof.verify.claims import Claim, Finding

_CODES = {"held": "32", "degraded": "33", "open": "33", "broken": "31;1", "error": "31;1", "dim": "2", "bold": "1"}
_NARROWEST, _WIDEST = 60, 160


def run(frame: Frame, options: Namespace) -> int:
    """Attack, show the results, write the requested reports, and record the outcome; return 1 if a claim fails."""
    app = frame.app()
    try:
        total = len(chosen(options.only or None))
    except CrabpotError as error:
        raise UsageError(str(error)) from None
    table = _Table(total, quiet=options.json)
    report = asyncio.run(_attack(app, options, table))
    if options.json:
        print(json.dumps(report.as_json(), indent=1))
    else:
        table.sum_up(report)
    for path, text in ((options.junit, junit.text), (options.html, auditors_page.text)):
        if path:
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(text(report))
    return FAILED if report.failed else OK


async def _attack(app: App, options: Namespace, table: _Table) -> Report:
    settings = app.settings()
    because = trial.host_because(settings, options.session)
    if because is not None:
        raise UsageError(f"{options.session} runs on the host, where there are no walls to attack: {because}")
    # The user's own log records the verification; its thousands of hostile calls are removed with the trial.
    take(app.around.state)
    audit = AuditLog(app.around.state)
    audit.open()
    try:
        with trial.folder() as place:
            tried = trial.prepare(settings, options.session, place, app.around, backend=options.backend)
            report = await _attacked(app, tried, f"{place}/state", options, table)
        audit.record({"kind": "verify", **report.summary()})
        return report
    finally:
        audit.close()


async def _attacked(app: App, tried: trial.Trial, state: str, options: Namespace, table: _Table) -> Report:
    def open_gateway() -> Gateway:
        return app.elsewhere(state).gateway(settings=tried.settings)

    began, config = time.monotonic(), app.config
    written = None if config is None else hashlib.sha256(read_text(config).encode()).hexdigest()
    guarded = tuple(path for path in (app.around.state, app.config) if path)
    async with targets(open_gateway, tried.session, tried.other, guarded=guarded) as target:
        opened = await target.shell("true")
        if opened.error is not None:
            raise CrabpotError(f"there is no sandbox to attack: {opened.error.message}")
        backend, clauses = await target.gateway.execution.registry.clauses(target.spec)
        table.open(options.session, backend)
        seen = await look(target.gateway, target.session)
        only = options.only or None
        findings = await verify(target, only=only, begins=table.begin, progress=table.end)
        return Report(
            session=options.session,
            backend=backend,
            spec_hash=tried.spec_hash,
            clauses=clauses,
            findings=tuple(findings),
            facts=seen.facts,
            seconds=time.monotonic() - began,
            version=__version__,
            only=tuple(options.only),
            config=app.config,
            config_hash=written,
            lowered=tried.lowered,
        )


class _Table:
    """Prints results as they come, and on a terminal the current attack. Nothing from inside may move the cursor."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._stream = sys.stderr if quiet else sys.stdout
        self._quiet = quiet
        self._colour = wants_colour(self._stream)
        self._live = self._stream is not None and self._stream.isatty()
        self._width = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
        self._total, self._done, self._group = total, 0, ""

    def open(self, session: str, backend: str) -> None:
        """Print what is attacked."""
        self._say(f"Attacking a sandbox as {visible(session)} gets it, on {backend}: {counted(self._total, 'claim')}.")

    def begin(self, claim: Claim) -> None:
        """Show the current attack."""
        if claim.group != self._group and not self._quiet:
            self._group = claim.group
            self._say(f"\n{self._paint('bold', claim.group)}")
        if self._live:
            now = f"  [{self._done + 1}/{self._total}] {claim.text}"
            self._stream.write(f"\r\x1b[K{self._paint('dim', now[: self._width - 1])}")
            self._stream.flush()

    def end(self, finding: Finding) -> None:
        """Show the result of an attack."""
        self._done += 1
        if self._quiet and not finding.failed:
            self._wipe()
            return
        state = self._paint(finding.state, f"{finding.state:<8}")
        room = self._width - 21
        self._say(f"  {state}  {_clipped(finding.claim.text, room):<{room}} {finding.seconds:6.2f} s")
        if finding.state != "held":
            details = {"tried": finding.tried, "came back": finding.came_back, "announced": finding.degraded or ""}
            for label, what in details.items():
                if what:
                    self._say(f"            {self._paint('dim', f'{label:<9}')} {_clipped(what, 4 * self._width)}")

    def sum_up(self, report: Report) -> None:
        """Print the summary."""
        counts = ", ".join(f"{count} {state}" for state, count in report.counts.items() if count)
        verdict = "THESE CLAIMS FAILED" if report.failed else "no claim failed"
        style = "broken" if report.failed else "held"
        self._say(f"\n{self._paint(style, verdict)}: {counts}, in {report.seconds:.0f} s (digest {report.digest[:16]})")
        for finding in report.findings:
            if finding.failed:
                self._say(f"  {self._paint('broken', finding.state)}  {visible(finding.claim.text)}")

    def _say(self, line: str) -> None:
        self._wipe()
        print(line, file=self._stream, flush=True)

    def _wipe(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")

    def _paint(self, style: str, text: str) -> str:
        shown = visible(text)
        return f"\x1b[{_CODES[style]}m{shown}\x1b[0m" if self._colour else shown


def _clipped(text: str, width: int) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= width else f"{line[: width - 1]}…"
