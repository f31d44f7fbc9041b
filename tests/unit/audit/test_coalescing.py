"""What an agent repeats is counted, what it floods is withheld, and the numbers add up."""

from __future__ import annotations

import json
import os
import threading

from crabpot.audit import coalescing
from crabpot.audit.chain import text_of
from crabpot.audit.coalescing import Coalescer
from crabpot.audit.reading import AuditReader
from crabpot.audit.records import of_connection
from crabpot.audit.store import AuditLog
from crabpot.decide.scope import behind_it
from crabpot.doors.cli.commands.audit import _line

WHY = "it is not listed (agents.defaults.sandbox.network.allow)"


def refusal(destination="evil.example:443", agent="main", session="agent:main:main", answer="refused", **more):
    return of_connection(session, agent, destination, answer, scope=session, because=WHY, **more)


def all_of(state):
    return list(AuditReader(state).all())


def taken(records):
    """Count what was taken, as a reader of the log would."""
    alone = sum("repeated" not in one and one["kind"] != "withheld" for one in records)
    repeated = sum(one["repeated"]["count"] for one in records if "repeated" in one)
    return alone + repeated + sum(one["count"] for one in records if one["kind"] == "withheld")


def size_of(state):
    return sum(os.path.getsize(os.path.join(state, name)) for name in os.listdir(state))


async def test_the_same_refusal_25000_times_is_two_records_that_add_up(log, state):
    log.record(refusal())
    await log.durable()
    (first,) = all_of(state)
    assert (first["answer"], first["because"]) == ("refused", WHY)
    for _ in range(24_999):
        log.record(refusal())
    log.close()
    records = all_of(state)
    assert len(records) == 2
    assert records[1]["repeated"]["count"] == 24_999
    assert records[1]["destination"] == "evil.example:443"
    assert first["time"] <= records[1]["repeated"]["since"] <= records[1]["repeated"]["until"] <= records[1]["time"]
    assert size_of(state) < 100_000
    assert AuditReader(state).verify() == (2, None)


async def test_25000_refusals_of_as_many_places_are_bounded_and_add_up(log, state):
    for number in range(25_000):
        log.record(refusal(f"h{number}.example:443"))
    log.close()
    records = all_of(state)
    assert taken(records) == 25_000
    withheld = [one for one in records if one["kind"] == "withheld"]
    assert withheld[0]["agent"] == "main"
    assert withheld[0]["bytes"] > 0
    assert sum(len(text_of(one)) for one in records) < 8 * 1024**2
    assert AuditReader(state).verify()[1] is None


async def test_one_agents_flood_withholds_nothing_of_anothers(log, state):
    for number in range(25_000):
        log.record(refusal(f"h{number}.example:443"))
        if number % 1000 == 0:
            log.record(refusal(f"h{number}.example:443", agent="other", session="agent:other:main"))
    log.close()
    assert sum(one["agent"] == "other" for one in all_of(state)) == 25


async def test_a_token_that_invents_agents_has_one_allowance(log, state):
    with behind_it("wildcard"):
        for number in range(25_000):
            agent = f"a{number}"
            log.record(refusal(agent=agent, session=f"agent:{agent}:main"))
    log.record(refusal("other.example:443"))
    log.close()
    records = all_of(state)
    assert taken(records) == 25_001
    assert sum(len(text_of(one)) for one in records) < 8 * 1024**2
    assert {one["principal"] for one in records if one["kind"] == "withheld"} == {"wildcard"}
    assert any(one.get("destination") == "other.example:443" for one in records)


async def test_what_touches_the_host_is_written_behind_any_flood(log, state):
    call = {"agent": "main", "session": "agent:main:main", "args": {"command": "x" * 4000}}
    for _ in range(30_000):
        log.record({"kind": "call", "place": "sandbox", **call})
    for record in (
        {"kind": "intent", **call},
        {"kind": "call", "place": "host", **call},
        {"kind": "answer", "allowed": True, "agent": "main"},
        {"kind": "open", "sandbox": "x"},
    ):
        log.record(record)
    log.close()
    records = all_of(state)
    assert [one["kind"] for one in records[-5:-1]] == ["intent", "call", "answer", "open"]
    assert records[-1]["kind"] == "withheld"
    assert taken(records) == 30_004


async def test_a_flood_of_openings_is_bounded_and_adds_up(log, state):
    clauses = [{"name": f"clause {number}", "state": "enforced", "by": "x" * 60} for number in range(20)]
    for number in range(10_000):
        with behind_it("a token"):
            log.record({"kind": "open", "sandbox": f"crabpot-agent-ops-{number}", "clauses": clauses, "warnings": []})
        if number % 1000 == 0:
            with behind_it("agent other"):
                log.record({"kind": "open", "sandbox": f"other-{number}", "clauses": clauses, "warnings": []})
    log.close()
    records = all_of(state)
    assert taken(records) == 10_010
    assert sum(len(text_of(one)) for one in records) < 8 * 1024**2
    (withheld,) = [one for one in records if one["kind"] == "withheld"]
    assert (withheld["principal"], withheld["of"]) == ("a token", "open")
    assert withheld["count"] > 5000
    assert sum(one.get("sandbox", "").startswith("other-") for one in records) == 10
    assert "of kind open" in _line(withheld)


async def test_what_the_gateway_opens_on_its_own_is_always_written(log, state):
    for number in range(5000):
        log.record({"kind": "open", "sandbox": f"spare-{number}", "clauses": ["x" * 2000], "warnings": []})
    log.close()
    assert len(all_of(state)) == 5000


def test_another_rule_session_or_answer_is_not_the_same_thing():
    coalescer = Coalescer()
    different = [
        refusal(),
        refusal(answer="failed"),
        refusal("evil.example:80"),
        refusal(session="agent:main:two"),
        refusal(agent="two"),
        {**refusal(), "because": "denied, by me"},
    ]
    for record in different:
        record["time"] = 1.0
        assert [entry.record for entry in coalescer.take(record)] == [record]
        assert list(coalescer.take(record)) == []


def test_what_is_allowed_is_written_each_time():
    coalescer = Coalescer()
    for _ in range(10):
        record = {**refusal(answer="allowed"), "time": 1.0}
        assert [entry.record for entry in coalescer.take(record)] == [record]


def test_counts_are_written_at_intervals_also_while_nothing_else_happens(state, monkeypatch):
    from crabpot.audit import store

    monkeypatch.setattr(coalescing, "EVERY_S", 0.05)
    monkeypatch.setattr(store, "EVERY_S", 0.05)
    log = AuditLog(state)
    log.open()
    for _ in range(10):
        log.record(refusal())
    waiting = threading.Event()
    for _ in range(400):
        if taken(all_of(state)) == 10:
            break
        waiting.wait(0.02)
    assert taken(all_of(state)) == 10
    # What stayed away for an interval is written at once when it comes again.
    while log._coalescer._repeated:
        waiting.wait(0.02)
        log._record_counts()
    log.record(refusal())
    log.close()
    assert "repeated" not in all_of(state)[-1]
    assert log._coalescer._of_each.total() == 1


def test_what_is_remembered_is_bounded():
    coalescer = Coalescer()
    for number in range(10_000):
        list(coalescer.take({**refusal(f"h{number}.example:1"), "time": 1.0}))
    assert len(coalescer._repeated) == coalescing._MOST_OF_EACH


async def test_a_person_reads_how_many_and_from_when_to_when(log, state):
    for number in range(25_000):
        log.record(refusal(f"h{number}.example:443"))
        log.record(refusal())
    log.close()
    lines = [_line(one) for one in all_of(state)]
    assert any("connection refused  evil.example:443" in line and "(24999 from " in line for line in lines)
    assert any("withheld" in line and "of kind connection" in line and "[agent main]" in line for line in lines)
    json.dumps(all_of(state))
