"""The program behind `scripts/hostile-run`: prepares the namespaces, runs, and writes the figures and the curve."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile

from bench.plots import over_time
from tests.hostile_run.bystander import BARE, CALL, PAGE, REACH
from tests.hostile_run.run import ASK, HOSTILE, QUIET, Report, run

_MIB = 1024**2
_PROBES = (CALL, REACH, ASK, PAGE, BARE)
_FILES = {
    "resolv.conf": "nameserver 127.0.0.1\noptions timeout:5 attempts:2\n",
    "hosts": "127.0.0.1 localhost\n127.0.0.9 listed.example\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def main() -> int:
    """Run it; the first argument `inside` says that the namespaces are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each phase is measured")
    parser.add_argument("--quiet", type=float, default=10.0, metavar="S", help="seconds in quiet, each time")
    parser.add_argument("--hostile", type=float, default=20.0, metavar="S", help="seconds beside both, each time")
    parser.add_argument("--docs", metavar="DIR", help="write hostile-run.svg and hostile-run.json there")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        own = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
        command = ["unshare", *own, "--net", "--mount", sys.executable, "-m", "tests.hostile_run.curve", "--inside"]
        return subprocess.run([*command, *sys.argv[1:]], check=False).returncode
    with tempfile.TemporaryDirectory(prefix="crabpot-hostile-") as folder:
        os.chmod(folder, 0o711)
        _prepare(folder)
        report = asyncio.run(run(folder, rounds=options.rounds, quiet_s=options.quiet, hostile_s=options.hostile))
    figures = summary(report)
    print(json.dumps(figures, indent=2))
    if options.docs:
        for name, text in (("svg", picture(report)), ("json", json.dumps(figures, indent=2) + "\n")):
            with open(f"{options.docs}/hostile-run.{name}", "w", encoding="utf-8") as file:
                file.write(text)
    return 0


def _prepare(folder: str) -> None:
    for name, text in _FILES.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(["mount", "--bind", file.name, os.path.realpath(f"/etc/{name}")], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def summary(report: Report) -> dict[str, object]:
    """Return the figures of a run."""
    return {
        "medians_ms": {
            phase: {what: round(report.waits(what, phase).median * 1000, 2) for what in _PROBES}
            for phase in (QUIET, HOSTILE)
        },
        "times": {what: round(report.ratio(what), 2) for what in _PROBES},
        "times_of_each_round": {what: [round(one, 2) for one in report.ratios(what)] for what in _PROBES},
        "counts": {what: len(report.waits(what, HOSTILE).values) for what in _PROBES},
        "longest_ms": {
            phase: {what: round(max(report.waits(what, phase).values) * 1000, 1) for what in _PROBES}
            for phase in (QUIET, HOSTILE)
        },
        "peak_mib": round(report.peak_bytes / _MIB, 1),
        "first_mib": round(report.memory[0][1] / _MIB, 1),
        "last_mib": round(report.memory[-1][1] / _MIB, 1),
        "log_mib": round(report.log_bytes / _MIB, 2),
        "hostile": {"made": report.made, "refused": report.refused, "at_doors": report.at_doors},
    }


def picture(report: Report) -> str:
    """Draw the gateway's memory over time, with the stretches in which the hostile ones were at work."""
    return over_time(
        "Memory of the gateway (resident, MiB) while one agent and one token do their worst",
        [(at, size / _MIB) for at, size in report.memory],
        [(one.began_s, one.ended_s, one.name) for one in report.phases if one.name == HOSTILE],
    )


if __name__ == "__main__":
    sys.exit(main())
