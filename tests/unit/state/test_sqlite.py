"""Opening a database of the state folder."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from crabpot.approvals.store import _SCHEMA
from crabpot.audit.tables import SCHEMA
from crabpot.state import sqlite

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = pytest.mark.parametrize("schema", [SCHEMA, _SCHEMA], ids=["audit", "approvals"])


@SCHEMAS
def test_what_was_waited_for_survives_a_power_cut(tmp_path: Path, schema: str) -> None:
    with closing(sqlite.connect(str(tmp_path / "d"), schema)) as opened:
        assert opened.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert opened.execute("PRAGMA synchronous").fetchone() == (2,)


@SCHEMAS
def test_one_that_lost_the_race_to_make_the_tables_finds_them_made(tmp_path: Path, schema: str) -> None:
    with closing(sqlite.connect(str(tmp_path / "d"), schema)) as first:
        first.executescript(f"BEGIN IMMEDIATE; {schema} COMMIT;")
        assert first.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,)


@SCHEMAS
def test_many_that_open_a_new_one_at_once_all_succeed(tmp_path: Path, schema: str) -> None:
    start, failures = threading.Barrier(8), []

    def open_it() -> None:
        start.wait(20)
        try:
            sqlite.connect(str(tmp_path / "d"), schema).close()
        except Exception as error:  # noqa: BLE001  told by the assertion
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failures == []


def test_rows_at_once_come_in_their_order_and_with_their_types(tmp_path: Path) -> None:
    with closing(sqlite.connect(str(tmp_path / "d"), "CREATE TABLE t (n INTEGER, s TEXT);")) as opened:
        opened.executemany("INSERT INTO t VALUES (?, ?)", [(number, f'"é\n{number}') for number in range(300)])
        rows = sqlite.rows_at_once(opened, "s, n", "FROM t WHERE n < ? ORDER BY n DESC LIMIT 3", (200,))
        assert rows == [[f'"é\n{number}', number] for number in (199, 198, 197)]
        assert sqlite.rows_at_once(opened, "s", "FROM t WHERE n < 0") == []
