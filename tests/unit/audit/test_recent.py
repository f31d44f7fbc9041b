"""The newest records that are kept ready: always the end of the log as it is on disk, whoever wrote it."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

from crabpot.audit import FILE_NAME
from crabpot.audit import recent as recents
from crabpot.audit.reading import AuditReader
from crabpot.audit.store import AuditLog


async def write(log, *numbers, text=""):
    for number in numbers:
        log.record({"kind": "call", "session": "agent:main:ü", "n": number, "text": text})
    await log.durable()


def told(log, count):
    found = log.recent.last(count)
    return None if found is None else [json.loads(one.text) for one in found]


async def test_nothing_is_kept_until_somebody_has_looked(log):
    await write(log, *range(5))
    assert log.recent.last(1) is None
    assert log.recent._kept == ()


async def test_what_is_written_after_a_look_is_there_as_a_reader_finds_it(log, state):
    await write(log, *range(5))
    log.recent.look()
    assert told(log, 5) == AuditReader(state).last(5)
    for number in range(5, 9):
        await write(log, number, text='"é\n\\')
        assert told(log, 5) == AuditReader(state).last(5)
    assert log.recent.last(10) is None


async def test_what_another_process_wrote_is_never_missed(log, state):
    await write(log, 1)
    log.recent.look()
    other = AuditLog(state)
    other.open()
    await write(other, 2)
    assert log.recent.last(1) is None
    # What follows a record that is not kept is all that is known.
    await write(log, 3)
    assert [one["n"] for one in told(log, 1)] == [3]
    assert log.recent.last(2) is None
    await write(other, 4)
    other.close()
    log.recent.look()
    assert told(log, 4) == AuditReader(state).last(4)


async def test_a_log_that_was_written_anew_is_noticed_by_its_hash(log, state):
    await write(log, 1, 2)
    log.recent.look()
    assert log.recent.last(2) is not None
    with closing(sqlite3.connect(os.path.join(state, FILE_NAME))) as other, other:
        other.execute("UPDATE head SET hash = ?", ("f" * 64,))
    assert log.recent.last(2) is None


async def test_only_so_many_are_kept_and_no_more_of_long_ones(log):
    await write(log, 0)
    log.recent.look()
    await write(log, *range(recents._MOST + 50))
    assert len(log.recent.last(recents._MOST)) == recents._MOST
    assert log.recent.last(recents._MOST + 1) is None
    await write(log, *range(5), text="x" * (recents._MOST_CHARACTERS // 4))
    assert sum(len(one.text) for one in log.recent._kept) <= recents._MOST_CHARACTERS
    assert log.recent.last(3) is not None


@pytest.mark.parametrize("damage", ["x'ff00'", "'not JSON'"])
async def test_a_damaged_record_is_not_kept(log, state, damage):
    await write(log, 1, 2)
    with closing(sqlite3.connect(os.path.join(state, FILE_NAME))) as other, other:
        other.execute(f"UPDATE records SET text = {damage} WHERE number = 1")
    log.recent.look()
    assert log.recent.last(1) is None


async def test_a_closed_log_keeps_nothing(log):
    await write(log, 1)
    log.recent.look()
    log.close()
    assert log.recent.last(1) is None
