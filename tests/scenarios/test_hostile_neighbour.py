"""One agent does everything at once that it can do: another agent, an operator and the page are answered meanwhile.

How quickly is measured by `scripts/hostile-run`; here it is only that they are, since this machine may be busy.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]

LONGEST_MS = 60_000
# A gateway begins with some 80 MiB; what one agent can make it hold beside that is bounded.
MOST_MIB = 1024


def test_a_hostile_agent_keeps_nobody_else_from_being_answered():
    done = subprocess.run(
        [REPOSITORY / "scripts/hostile-run", "--rounds", "1", "--quiet", "2", "--hostile", "8"],
        capture_output=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    figures = json.loads(done.stdout)
    assert set(figures["counts"]) == set(figures["times"])
    assert all(count >= 1 for count in figures["counts"].values())
    assert all(longest < LONGEST_MS for longest in figures["longest_ms"]["beside both"].values())
    assert figures["peak_mib"] < MOST_MIB
    assert figures["log_mib"] < 128
    # It was hostile indeed, as far as it got in that time.
    assert figures["hostile"]["made"]["many sessions"] > 10
    assert figures["hostile"]["at_doors"]["half_open"] > 100
