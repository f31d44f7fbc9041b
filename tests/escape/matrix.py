"""Write docs/verification.md: which claims fall when which wall is removed. `python -m tests.escape.matrix`, as root.

Slow attacks are made only without the wall that each stands behind, all others without every wall.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from crabpot.proof.verify.catalogue import CLAIMS, GROUPS
from crabpot.proof.verify.run import carry_out
from crabpot.proof.verify.threats import ROWS
from tests.escape.walls import ON_THE_HOST, WALLS, without
from tests.support.ordinary_user import as_ordinary_user

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.escape.walls import Wall

PAGE = Path(__file__).parents[2] / "docs/verification.md"
SLOW = """
cannot_take_more_memory_than_its_limit_by_many_processes gains_nothing_by_a_setuid_program harms_nobody_by_a_fork_bomb
cannot_take_more_of_the_processor_than_its_share cannot_run_longer_than_its_time_limit
cannot_win_a_race_against_the_file_tools cannot_hold_the_gateway_by_stopping_the_runner cannot_hold_a_call_by_silence
cannot_flood_the_gateway_from_the_runners_place cannot_flood_the_gateway_with_output
cannot_flood_the_gateway_with_a_streams_worth_of_errors cannot_break_the_gateway_by_frames_of_any_size
cannot_break_the_gateway_by_what_is_no_frame cannot_answer_for_another_call cannot_forge_a_decision_of_the_gateway
cannot_hold_upcalls_beyond_measure cannot_use_up_the_terminals_of_the_host
""".split()
HEAD = """# Verification: what is claimed, and what each claim depends on

`crabpot verify` opens a sandbox as a session gets it and tries to break every claim below, from inside and from beside it. An attack that could not
be carried out is an error, never a pass. `tests/escape` runs all of them on bubblewrap and docker, as root and as an ordinary user.

An attack that cannot succeed proves nothing. So each is also carried out where one wall is missing, and there it must succeed
(`tests/escape/test_controls.py`). No program of Crabpot's can leave out a wall: the weakened sandboxes are made in `tests/escape/walls.py`, and a test checks
that of the package. Landlock, the second wall, is missing in all of them, since it backs up several of the others.

This page is written by `python -m tests.escape.matrix`, as root. A dot means that the claim fell without that wall. Slow attacks are carried out only without
the wall that stops them, and no flood, bomb or hostile runner in the sandbox that is the host's root.
"""


async def fallen(wall: Wall) -> set[str]:
    own = wall.falls.split()
    tried = [
        claim for claim in CLAIMS if claim.name in own or (claim.name not in SLOW and claim.group not in wall.spares)
    ]
    async with without(wall) as target:
        found = [await carry_out(claim, target) for claim in tried]
    return {one.claim.name for one in found if one.state in ("broken", "degraded")}


def page(falls: list[tuple[str, set[str]]]) -> Iterator[str]:
    yield HEAD
    never = [claim.text for claim in CLAIMS if not any(claim.name in names for _, names in falls)]
    if never:
        yield f"The kernel of this run has nothing to attack for these claims: {'; '.join(never)}. Their controls are skipped there, with that reason.\n"
    yield "## Walls\n"
    yield from (f"{number}. {name}" for number, (name, _) in enumerate(falls, 1))
    numbers = range(1, len(falls) + 1)
    for group in GROUPS:
        yield f"\n## {group.capitalize()}\n"
        yield f"| claim | {' | '.join(map(str, numbers))} |"
        yield f"|---|{'---|' * len(falls)}"
        for claim in CLAIMS:
            if claim.group == group:
                marks = " | ".join("●" if claim.name in names else " " for _, names in falls)
                yield f"| {claim.text} | {marks} |"
    yield "\n## What has happened to others, and the claims about it\n\n| what happened | claims |\n|---|---|"
    for key, what in ROWS.items():
        yield f"| {what} | {'; '.join(claim.text for claim in CLAIMS if key in claim.threats)} |"


def main() -> None:
    falls = []
    for wall in WALLS:
        print(f"without {wall.name}", file=sys.stderr)
        falls.append((wall.name, asyncio.run(fallen(wall))))
    host = as_ordinary_user("unconfined", "host")
    falls.append(("the sandbox itself", {name for name in ON_THE_HOST.split() if host[name]["state"] == "broken"}))
    PAGE.write_text("\n".join(page(falls)) + "\n", encoding="utf-8")
    never = [claim.name for claim in CLAIMS if not any(claim.name in names for _, names in falls)]
    print(f"written; fell nowhere: {', '.join(never) or 'none'}", file=sys.stderr)


if __name__ == "__main__":
    main()
