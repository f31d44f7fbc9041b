"""What was changed, removed or put in shows."""

from __future__ import annotations

import os
import sqlite3

import pytest

from crabpot.audit import FILE_NAME, chain, tables
from crabpot.audit.reading import AuditReader
from crabpot.audit.store import AuditLog
from crabpot.errors import CrabpotError


@pytest.fixture
def state(tmp_path):
    return str(tmp_path / "a state? with #odd% characters")


@pytest.fixture
def written(state):
    log = AuditLog(state)
    log.open()
    for number in range(10):
        log.record({"kind": "call", "session": "agent:main:main", "n": number})
    log.close()
    return AuditReader(state)


def tamper(state, *statements):
    connection = sqlite3.connect(os.path.join(state, FILE_NAME), isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_log_that_nobody_touched_holds(written):
    assert written.verify() == (10, None)


TAMPERED = {
    "a changed record": (
        ["UPDATE records SET text = replace(text, '\"n\":3', '\"n\":4') WHERE number = 4"],
        "record 4",
    ),
    "a changed hash": (["UPDATE records SET hash = 'x' WHERE number = 4"], "record 4"),
    "text that became bytes": (["UPDATE records SET text = CAST(text AS BLOB) WHERE number = 4"], "record 4"),
    "a record removed from the middle": (["DELETE FROM records WHERE number = 5"], "record 5 is missing"),
    "the first record removed": (["DELETE FROM records WHERE number = 1"], "record 1 is missing"),
    "a record removed and the rest moved up": (
        ["DELETE FROM records WHERE number = 5", "UPDATE records SET number = number - 1 WHERE number > 5"],
        "record 5",
    ),
    "the last record removed": (["DELETE FROM records WHERE number = 10"], "1 record is missing at the end"),
    "the last three removed": (["DELETE FROM records WHERE number > 7"], "3 records are missing at the end"),
    "all removed": (["DELETE FROM records"], "10 records are missing at the end"),
    "the head removed": (["DELETE FROM head"], "head"),
    "the head moved back": (
        ["UPDATE head SET number = 9, hash = (SELECT hash FROM records WHERE number = 9)"],
        "head",
    ),
    "the end removed and the head moved back without its hash": (
        ["DELETE FROM records WHERE number = 10", "UPDATE head SET number = 9"],
        "head",
    ),
    "a record put in at the end": (["INSERT INTO records VALUES (11, '{}', 'x')"], "record 11"),
    "a record put in before the first": (["INSERT INTO records VALUES (0, '{}', 'x')"], "record 0"),
    "two records swapped": (
        [
            "UPDATE records SET number = 100 WHERE number = 4",
            "UPDATE records SET number = 4 WHERE number = 5",
            "UPDATE records SET number = 5 WHERE number = 100",
        ],
        "record 4",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_shows(name, written, state):
    statements, where = TAMPERED[name]
    tamper(state, *statements)
    _, broken = written.verify()
    assert broken is not None
    assert where in broken


def test_a_record_put_in_with_a_hash_that_follows_shows_by_the_head(written, state):
    last = written.last(1)[0]["hash"]
    tamper(state, f"INSERT INTO records VALUES (11, '{{}}', '{chain.link(last, '{}')}')")
    assert "head" in written.verify()[1]


@pytest.mark.parametrize("table", ["head", "records", "sessions"])
def test_a_log_without_one_of_its_tables_is_not_taken_for_an_empty_one(written, state, table):
    tamper(state, f"DROP TABLE {table}")
    read = (lambda: tables.sessions(state)) if table == "sessions" else written.verify
    with pytest.raises(CrabpotError, match="no such table"):
        read()


def test_a_file_that_is_no_database_is_told(state):
    os.makedirs(state)
    with open(os.path.join(state, FILE_NAME), "w") as stream:
        stream.write("x" * 10_000)
    for read in (AuditReader(state).verify, lambda: AuditReader(state).last(5), lambda: tables.sessions(state)):
        with pytest.raises(CrabpotError, match="cannot be read"):
            read()


@pytest.mark.parametrize("text", ["not JSON", "5", "[1]"])
def test_a_record_that_is_none_any_more_is_told_by_its_number(written, state, text):
    tamper(state, f"UPDATE records SET text = '{text}' WHERE number = 4")
    with pytest.raises(CrabpotError, match="record 4"):
        written.last(10)
    with pytest.raises(CrabpotError, match="record 4"):
        written.one(4)


def test_a_log_that_was_never_written_is_empty(state):
    reader = AuditReader(state)
    assert reader.verify() == (0, None)
    assert (reader.last(5), reader.one(1), tables.sessions(state)) == ([], None, [])
    assert not os.path.exists(state)


def test_a_log_whose_tables_are_not_made_yet_is_empty(state):
    log = AuditLog(state)
    log.open()
    assert AuditReader(state).verify() == (0, None)
    log.close()


def test_the_last_come_oldest_first_and_one_by_its_number(written):
    assert [row["number"] for row in written.last(3)] == [8, 9, 10]
    assert [row["n"] for row in written.last(3)] == [7, 8, 9]
    assert [row["number"] for row in written.last(3, after=8)] == [9, 10]
    assert written.last(3, after=10) == []
    assert written.one(4)["n"] == 3
    assert written.one(11) is None
    assert written.last(0) == written.last(-1) == []


def test_one_form_for_one_record():
    assert chain.text_of({"b": 1, "a": [None, "é"]}) == '{"a":[null,"\\u00e9"],"b":1}'


def test_a_log_that_is_being_written_verifies_at_every_moment(state):
    log = AuditLog(state)
    log.open()
    reader = AuditReader(state)
    try:
        for number in range(2000):
            log.record({"kind": "call", "n": number})
            if number % 20 == 0:
                assert reader.verify()[1] is None
    finally:
        log.close()
