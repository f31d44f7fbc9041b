"""The log that is written: whole, in order, by as many as like, and never silently without a record."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from functools import partial

import pytest

import crabpot
from crabpot.audit import FILE_NAME, chain, store, tables
from crabpot.audit.reading import AuditReader
from crabpot.audit.store import AuditLog, AuditUnavailable
from crabpot.errors import CrabpotError
from crabpot.state import sqlite
from tests.support.waiting import until

SOURCE = os.path.dirname(os.path.dirname(crabpot.__file__))


def record(number, session="agent:main:main"):
    return {"kind": "call", "session": session, "n": number}


async def test_what_is_described_later_is_there_in_its_order_and_with_its_time(log, state):
    log.record_soon(lambda: {"kind": "first"})
    began = time.time()
    log.record_soon(lambda: {"kind": "second"})
    log.record({"kind": "third"})
    log.record_soon(lambda: {"kind": "fourth"})
    await log.durable()
    found = AuditReader(state).last(4)
    assert [one["kind"] for one in found] == ["first", "second", "third", "fourth"]
    assert found[0]["time"] <= began + 0.001


class Describing:
    """Counts what it has described, and keeps the loop busy for a while with each."""

    def __init__(self, busy_s: float = 0.0) -> None:
        self.busy_s = busy_s
        self.done = 0

    def __call__(self) -> dict[str, str]:
        self.done += 1
        until = time.monotonic() + self.busy_s
        while time.monotonic() < until:
            pass
        return {"kind": "it"}


async def test_what_nobody_waits_for_is_described_in_a_moment(log):
    describe = Describing()
    log.record_soon(describe)
    assert not describe.done
    async with asyncio.timeout(10):
        while not describe.done:
            await asyncio.sleep(0)


async def test_many_are_described_together_in_the_next_turn(log):
    describe = Describing()
    for _ in range(store._TOGETHER - 1):
        log.record_soon(describe)
    await asyncio.sleep(0)
    assert not describe.done
    log.record_soon(describe)
    await asyncio.sleep(0)
    assert describe.done == store._TOGETHER


async def test_calls_that_end_without_a_turn_of_the_loop_keep_few_waiting(log):
    describe = Describing()
    for _ in range(1000):
        log.record_soon(describe)
    assert describe.done > 1000 - store._TOGETHER


async def test_others_have_their_turn_while_much_is_described(log):
    describe = Describing(busy_s=2 * store._SLICE_S)
    for _ in range(store._TOGETHER):
        log.record_soon(describe)
    await asyncio.sleep(0)
    assert describe.done == 1
    async with asyncio.timeout(10):
        while describe.done < store._TOGETHER:
            await asyncio.sleep(0)


async def test_one_that_cannot_be_described_keeps_back_none_of_the_others(log):
    describe, loop = Describing(), asyncio.get_running_loop()
    told: list[object] = []
    loop.set_exception_handler(lambda _loop, context: told.append(context["exception"]))
    log.record_soon(lambda: {"kind": os.environ["CRABPOT_NEVER_SET"]})
    log.record_soon(describe)
    async with asyncio.timeout(10):
        while not describe.done:
            await asyncio.sleep(0)
    assert [type(error) for error in told] == [KeyError]


@pytest.mark.parametrize("damage", ["x'ff00'", "'not JSON'"])
async def test_a_damaged_record_is_named_and_hides_no_later_one(log, state, damage):
    for number in range(3):
        log.record(record(number))
    await log.durable()
    with closing(sqlite3.connect(os.path.join(state, FILE_NAME))) as other, other:
        other.execute(f"UPDATE records SET text = {damage} WHERE number = 2")
    assert [row["n"] for row in AuditReader(state).last(1)] == [2]
    with pytest.raises(CrabpotError, match=r"^record 2 is damaged"):
        AuditReader(state).last(2)


async def test_what_was_recorded_is_there_in_order_once_it_is_durable(log, state):
    for number in range(1000):
        log.record(record(number))
    await log.durable()
    reader = AuditReader(state)
    assert [row["n"] for row in reader.last(1000)] == list(range(1000))
    assert reader.verify() == (1000, None)


async def test_the_log_is_its_owners_alone(log, state):
    log.record(record(1))
    await log.durable()
    assert os.stat(state).st_mode & 0o777 == 0o700
    for name in os.listdir(state):
        assert os.stat(os.path.join(state, name)).st_mode & 0o777 == 0o600, name


async def test_the_sessions_that_called_are_known_the_latest_last(log, state):
    for number, session in enumerate(["b", "a", "b", "c"]):
        log.record(record(number, session) | {"time": 0})
        await log.durable()
        await asyncio.sleep(0.002)
    assert tables.sessions(state) == ["a", "b", "c"]


def test_closing_writes_what_nobody_waited_for(state):
    log = AuditLog(state)
    log.open()
    for number in range(10):
        log.record(record(number))
    log.close()
    log.close()
    assert AuditReader(state).verify() == (10, None)


def test_records_that_nobody_waits_for_are_written_all_the_same(log, state):
    log.record(record(1))
    asyncio.run(until(lambda: AuditReader(state).verify() == (1, None)))


@pytest.mark.parametrize("soon", [False, True])
async def test_what_is_hastened_is_written_though_nothing_follows_and_nobody_waits(log, state, monkeypatch, soon):
    monkeypatch.setattr(store, "_LINGER_S", 1000.0)
    for number in (1, 2):
        if soon:
            log.record_soon(partial(record, number))
        else:
            log.record(record(number))
        log.hasten()
        expected = number, None
        while AuditReader(state).verify() != expected:
            await asyncio.sleep(0.001)


async def test_whoever_catches_up_waits_for_what_was_hastened_alone(log, state, monkeypatch):
    monkeypatch.setattr(store, "_LINGER_S", 1000.0)
    log.record(record(1))
    await log.caught_up()
    assert AuditReader(state).verify() == (0, None)
    log.record_soon(lambda: record(2))
    log.hasten()
    await asyncio.sleep(0)
    await log.caught_up()
    assert AuditReader(state).verify() == (2, None)


async def test_many_who_wait_are_answered_by_few_commits(log):
    for number in range(50):
        log.record(record(number))
    await asyncio.gather(*(log.durable() for _ in range(50)))


async def test_a_log_that_is_closed_cannot_be_waited_for(log):
    log.close()
    with pytest.raises(AuditUnavailable, match="closed"):
        await log.durable()


async def test_a_caller_that_gives_up_waiting_does_no_harm(log, state):
    log.record(record(1))
    waiting = asyncio.create_task(log.durable())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    log.record(record(2))
    await log.durable()
    assert AuditReader(state).verify() == (2, None)


def test_a_loop_that_ended_before_it_heard_does_not_end_the_writer(state):
    log = AuditLog(state)
    log.open()
    blocker = sqlite3.connect(os.path.join(state, FILE_NAME), isolation_level=None)
    sqlite.connect(os.path.join(state, FILE_NAME), tables.SCHEMA).close()
    blocker.execute("BEGIN IMMEDIATE")

    async def give_up():
        log.record(record(1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await log.durable()

    asyncio.run(give_up())
    blocker.execute("ROLLBACK")
    blocker.close()
    log.record(record(2))
    log.close()
    assert AuditReader(state).verify() == (2, None)


@pytest.mark.parametrize("obstacle", ["a file in the way", "no permission"])
def test_a_state_folder_that_cannot_be_made_is_told(tmp_path, obstacle):
    if obstacle == "a file in the way":
        (tmp_path / "state").write_text("")
        state = str(tmp_path / "state" / "below")
    else:
        state = "/proc/nobody-makes-this"
    with pytest.raises(AuditUnavailable, match="cannot be written"):
        AuditLog(state).open()


async def test_a_file_that_is_no_database_is_told_and_never_overwritten(state):
    os.makedirs(state)
    file = os.path.join(state, FILE_NAME)
    with open(file, "w") as stream:
        stream.write("my diary, which is no database\n" * 100)
    log = AuditLog(state)
    log.open()
    log.record(record(1))
    with pytest.raises(AuditUnavailable, match="not a database"):
        await log.durable()
    with pytest.raises(AuditUnavailable, match="not a database"):
        log.close()
    with open(file) as stream:
        assert stream.read().startswith("my diary")


WRITER = """
import asyncio, sys
sys.path[:0] = [{source!r}]
from crabpot.audit.store import AuditLog
async def main():
    log = AuditLog({state!r})
    log.open()
    for number in range({count}):
        log.record({{"kind": "call", "session": sys.argv[1], "n": number}})
        if number % {every} == 0:
            await log.durable()
            print(number, flush=True)
    log.close()
asyncio.run(main())
"""


def writer(state, name, *, count, every):
    text = WRITER.format(source=SOURCE, state=state, count=count, every=every)
    return subprocess.Popen([sys.executable, "-I", "-c", text, name], stdout=subprocess.PIPE, text=True)


def test_several_processes_that_write_at_once_keep_one_chain(state):
    writers = [writer(state, f"agent:main:{number}", count=200, every=10) for number in range(4)]
    for one in writers:
        one.communicate(timeout=60)
        assert one.returncode == 0
    reader = AuditReader(state)
    assert reader.verify() == (800, None)
    rows = reader.last(800)
    for number in range(4):
        assert [row["n"] for row in rows if row["session"] == f"agent:main:{number}"] == list(range(200))


def test_a_writer_that_is_killed_loses_nothing_that_was_acknowledged(state):
    for round_ in range(3):
        one = writer(state, f"round {round_}", count=10**9, every=1)
        acknowledged = [int(one.stdout.readline()) for _ in range(30)][-1]
        one.send_signal(signal.SIGKILL)
        acknowledged = [acknowledged, *map(int, one.stdout.read().split("\n")[:-1])][-1]
        one.wait(timeout=20)
        one.stdout.close()
        reader = AuditReader(state)
        assert reader.verify()[1] is None
        assert acknowledged in [row["n"] for row in reader.last(100_000) if row["session"] == f"round {round_}"]


FULL = """
import asyncio, resource, signal, sys
sys.path[:0] = [{source!r}]
from crabpot.audit.reading import AuditReader
from crabpot.audit.store import AuditLog, AuditUnavailable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

async def main():
    log = AuditLog({state!r})
    log.open()
    log.record({{"kind": "call", "n": 0}})
    await log.durable()
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, resource.RLIM_INFINITY))
    refused = 0
    for number in range(1, 400):
        log.record({{"kind": "call", "n": number, "text": "x" * 1000}})
        try:
            await log.durable()
        except AuditUnavailable as error:
            refused += 1
            assert "cannot be written" in str(error)
            if refused == 5:
                break
    assert refused == 5, refused
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await log.durable()
    log.close()
    reader = AuditReader({state!r})
    count, broken = reader.verify()
    assert broken is None, broken
    assert [row["n"] for row in reader.last(1000)] == list(range(count)), count
    assert count == number + 1
    print("recovered")

asyncio.run(main())
"""


def test_a_full_disk_is_told_and_what_was_recorded_meanwhile_is_written_when_there_is_room(state):
    text = FULL.format(source=SOURCE, state=state)
    done = subprocess.run([sys.executable, "-I", "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "recovered\n", done.stderr


def test_a_disk_that_stays_full_is_told_at_the_close(state):
    text = textwrap.dedent(f"""
        import resource, signal, sys
        sys.path[:0] = [{SOURCE!r}]
        from crabpot.audit.store import AuditLog, AuditUnavailable
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        log = AuditLog({state!r})
        log.open()
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        log.record({{"kind": "call"}})
        try:
            log.close()
        except AuditUnavailable as error:
            print("told")
    """)
    done = subprocess.run([sys.executable, "-I", "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "told\n", done.stderr


async def test_more_records_than_are_kept_while_the_disk_is_full_become_a_gap_that_shows(log, state):
    await log.durable()
    log.record(record("first"))
    await log.durable()
    blocker = sqlite3.connect(os.path.join(state, FILE_NAME), isolation_level=None)
    blocker.execute("ALTER TABLE head RENAME TO hidden")
    for number in range(store._MOST_KEPT + 7):
        log.record(record(number))
    with pytest.raises(AuditUnavailable, match="no such table: head"):
        await log.durable()
    blocker.execute("ALTER TABLE hidden RENAME TO head")
    blocker.close()
    await log.durable()
    reader = AuditReader(state)
    assert reader.verify() == (1 + store._MOST_KEPT + 1, None)
    last = reader.last(1)[0]
    assert (last["kind"], last["dropped"]) == ("gap", 7)


def test_to_append_looks_at_no_record_before_the_last(state):
    connection = sqlite.connect(_made(state), tables.SCHEMA)
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    entries = [chain.Entry(record(number) | {"time": float(number)}) for number in (1, 2)]
    store._append(connection, entries, {})
    connection.set_trace_callback(None)
    assert statements
    for statement in statements:
        if statement.split()[0] in ("SELECT", "INSERT"):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
            assert not [step for step in plan if step.startswith("SCAN") and "head" not in step], (statement, plan)
    connection.close()


def test_to_read_the_last_records_or_one_is_no_search_either(state):
    connection = sqlite.connect(_made(state), tables.SCHEMA)
    for query in (
        "SELECT number, text, hash FROM records ORDER BY number DESC LIMIT 20",
        "SELECT number, text, hash FROM records WHERE number = 5",
    ):
        plan = " ".join(str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {query}"))
        assert "TEMP B-TREE" not in plan
        assert "LIMIT" in query or "SEARCH" in plan
    connection.close()


def _made(state):
    os.makedirs(state)
    return os.path.join(state, FILE_NAME)
