"""Taking turns: a warm-up that does not count, blocks in turns, and who fails drops out."""

from __future__ import annotations

from typing import Any

import pytest

from bench.contest import Entrant, contest
from bench.peers.peer import PeerFailed


class Scripted:
    """An entrant that takes as long as it was told, and a second more the first time; it writes down when it was asked."""

    def __init__(self, name, seconds, journal, *, fails_after=None):
        self.name, self.seconds, self.journal, self.fails_after = name, seconds, journal, fails_after

    async def block(self, times):
        self.journal.append((self.name, times))
        if (
            self.fails_after is not None
            and len([one for one in self.journal if one[0] == self.name]) > self.fails_after
        ):
            raise PeerFailed("it fell over")
        return [self.seconds + (len(self.journal) == 1 and index == 0) for index in range(times)]

    @property
    def entrant(self):
        return Entrant(name=self.name, block=self.block)


async def test_everybody_has_a_turn_in_every_round_and_the_warm_up_does_not_count():
    journal: list[Any] = []
    fast, slow = Scripted("fast", 0.1, journal), Scripted("slow", 0.2, journal)
    series = await contest([fast.entrant, slow.entrant], rounds=2)
    assert [name for name, _ in journal] == ["fast", "slow"] * 3
    assert [times for _, times in journal] == [2, 2, 2, 1, 2, 1], "who is slow is asked less often"
    assert [(one.name, len(one.values)) for one in series] == [("fast", 4), ("slow", 2)]


@pytest.mark.parametrize(("after", "left"), [(0, 0), (2, 1)])
async def test_who_fails_drops_out_and_keeps_what_it_did(after, left):
    journal: list[Any] = []
    told: list[Any] = []
    good, bad = Scripted("good", 0.2, journal), Scripted("bad", 0.2, journal, fails_after=after)
    series = await contest([good.entrant, bad.entrant], rounds=3, failed=lambda *why: told.append(why))
    assert told == [("bad", "it fell over")]
    assert {one.name: len(one.values) for one in series} == {"good": 3} | ({"bad": left} if left else {})


async def test_a_failure_that_nobody_wants_to_hear_of_ends_the_contest():
    with pytest.raises(PeerFailed, match="fell over"):
        await contest([Scripted("bad", 0.2, [], fails_after=0).entrant], rounds=1)
