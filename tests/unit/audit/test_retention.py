"""A log that grows for years: it moves to volumes, is retired by age, and stays one chain."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import textwrap

import pytest

import crabpot
from crabpot.audit import tables, volumes
from crabpot.audit.reading import AuditReader
from crabpot.audit.store import AuditLog
from crabpot.audit.tables import SCHEMA
from crabpot.errors import CrabpotError
from crabpot.settings import Audit
from crabpot.state.sqlite import connect

SOURCE = os.path.dirname(os.path.dirname(crabpot.__file__))
DAY_S = 86400.0


def write(state, count, **kept):
    """Write records one commit at a time, as a gateway with few calls does."""
    log = AuditLog(state, Audit(**{"rotate": 100, **kept}))
    log.open()
    for number in range(count):
        log.record({"kind": "call", "session": "agent:main:main", "n": number})
        if number % 10 == 9:
            log.close()
            log.open()
    log.close()
    return AuditReader(state)


def folder(state):
    return os.path.join(state, volumes.FOLDER)


def held(state):
    connection = connect(os.path.join(state, "audit.db"), SCHEMA)
    try:
        return connection.execute("SELECT count(*) FROM records").fetchone()[0]
    finally:
        connection.close()


def age(state, days, until):
    """Make records older, chain and all: what the log looks like when that many days have gone by."""
    connection = connect(os.path.join(state, "audit.db"), SCHEMA)
    from crabpot.audit.chain import START, link, text_of

    before = START
    rows = connection.execute("SELECT number, text FROM records ORDER BY number").fetchall()
    for number, text in rows:
        record = json.loads(text)
        record["time"] -= days * DAY_S if number <= until else 0
        before = link(before, text_of(record))
        connection.execute("UPDATE records SET text = ?, hash = ? WHERE number = ?", (text_of(record), before, number))
    connection.execute("UPDATE head SET hash = ?", (before,))
    connection.close()


def test_older_records_move_to_volumes_and_every_one_is_still_found(state):
    reader = write(state, 1000)
    assert held(state) <= 100
    assert len(volumes.listed(folder(state))) > 5
    assert reader.verify() == (1000, None)
    assert [record["n"] for record in reader.all()] == list(range(1000))
    assert [record["n"] for record in reader.last(300)] == list(range(700, 1000))
    assert reader.one(7)["n"] == 6
    assert reader.one(1001) is None
    assert tables.sessions(state) == ["agent:main:main"]


def test_a_page_before_a_number_crosses_from_the_database_into_volumes(state):
    reader = write(state, 300)
    for before in (1, 2, 49, 50, 51, 52, 150, 299, 301):
        page = [record["number"] for record in reader.last(20, before=before)]
        assert page == list(range(max(1, before - 20), before))
    assert [r["n"] for r in reader.last(3, wanted=lambda record: record["n"] % 100 == 0)] == [0, 100, 200]


def test_volumes_are_their_owners_alone(state):
    write(state, 300)
    assert os.stat(folder(state)).st_mode & 0o777 == 0o700
    for volume in volumes.listed(folder(state)):
        assert os.stat(volume.path).st_mode & 0o777 == 0o600


def _unpack(volume):
    with gzip.open(volume.path, "rt") as stream:
        return [json.loads(line) for line in stream]


def _pack(volume, records):
    with gzip.open(volume.path, "wt") as stream:
        stream.writelines(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda records: records.clear(), "record 1 is missing"),
        (lambda records: records[3].update(n=999), "record 4 was changed or inserted"),
        (lambda records: records.pop(3), "record 4 is missing"),
        (lambda records: records.pop(), "is missing"),
        (lambda records: records.insert(3, dict(records[3])), "record 4 was changed or inserted"),
    ],
)
def test_tampering_with_a_volume_shows(state, change, told):
    reader = write(state, 300)
    volume = volumes.listed(folder(state))[0]
    records = _unpack(volume)
    change(records)
    _pack(volume, records)
    assert told in reader.verify()[1]


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_volume_that_is_gone_shows(state, which):
    reader = write(state, 400)
    os.unlink(volumes.listed(folder(state))[which].path)
    assert "is missing" in reader.verify()[1]


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"[]\n", mtime=0), gzip.compress(b"{}\n", mtime=0)[:-4]])
def test_a_volume_that_is_none_any_more_is_told(state, content):
    reader = write(state, 300)
    volume = volumes.listed(folder(state))[0]
    with open(volume.path, "wb") as stream:
        stream.write(content)
    with pytest.raises(CrabpotError, match="cannot be read") as told:
        reader.verify()
    assert volume.path in str(told.value)


def test_records_beyond_their_days_are_retired_and_the_log_says_so(state):
    reader = write(state, 50)
    age(state, 40, until=30)
    write(state, 1, keep_days=30)
    records = list(reader.all())
    assert [record["number"] for record in records] == list(range(31, 53))
    assert records[-1]["kind"] == "retired"
    assert records[-1]["until"] == 30
    assert reader.verify() == (22, None)


def test_whole_volumes_are_retired_by_age(state):
    reader = write(state, 400)
    old = volumes.listed(folder(state))[:2]
    for volume in old:
        os.utime(volume.path, (1, 1))
    write(state, 1, keep_days=30)
    assert volumes.listed(folder(state))[0].first == old[-1].last + 1
    assert reader.verify()[1] is None
    assert next(reader.all())["number"] == old[-1].last + 1


def test_a_volume_removed_by_hand_is_not_taken_for_a_retired_one(state):
    reader = write(state, 400)
    for volume in volumes.listed(folder(state))[:2]:
        os.utime(volume.path, (1, 1))
    write(state, 1, keep_days=30)
    os.unlink(volumes.listed(folder(state))[0].path)
    assert "is missing" in reader.verify()[1]


def test_nothing_is_retired_unless_the_configuration_says_so(state):
    reader = write(state, 50)
    age(state, 4000, until=50)
    write(state, 1)
    assert reader.verify() == (51, None)


def test_a_crash_between_volume_and_database_shows_every_record_once(state):
    reader = write(state, 90)
    rows = [
        (r.pop("number"), json.dumps(r, sort_keys=True, separators=(",", ":")), h)
        for r in reader.all()
        if (h := r.pop("hash"))
    ]
    volumes.write(folder(state), 1, 40, rows[:40])
    assert [record["n"] for record in reader.all()] == list(range(90))
    assert reader.verify() == (90, None)
    write(state, 100)
    assert reader.verify() == (190, None)


def test_a_volume_that_cannot_be_written_leaves_the_log_whole(state):
    os.makedirs(state, mode=0o700)
    with open(folder(state), "w"):
        pass
    reader = write(state, 300)
    os.unlink(folder(state))
    assert reader.verify() == (300, None)
    write(state, 20)
    assert reader.verify() == (320, None)
    assert held(state) < 300


def test_processes_that_rotate_at_once_keep_one_chain(state):
    program = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {SOURCE!r})
        from crabpot.audit.store import AuditLog
        from crabpot.settings import Audit
        log = AuditLog({state!r}, Audit(rotate=100))
        for _ in range(40):
            log.open()
            for number in range(10):
                log.record({{"kind": "call", "n": number}})
            log.close()
    """)
    writers = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [writer.wait(120) for writer in writers] == [0] * 4
    assert AuditReader(state).verify() == (1600, None)
    assert held(state) <= 200
