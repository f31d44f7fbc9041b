"""The desk: everybody is asked, the first answer counts and counts once, and silence is a denial."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from functools import partial

import pytest

from crabpot.approvals import desk as desks
from crabpot.approvals import store as stores
from crabpot.approvals.desk import Desk
from crabpot.approvals.leases import Leases
from crabpot.approvals.requests import Answer, denied
from crabpot.approvals.store import FILE_NAME, Store, StoreUnavailable
from crabpot.decide.scope import acting_for
from tests.support.counted_threads import CountedThreads
from tests.support.waiting import until

YES = Answer(allowed=True, by="test")
NO = denied("test", "not today")


class Waits:
    """An approver that shows the question, and leaves the answer to others."""

    def __init__(self):
        self.asked, self.withdrawn = [], []

    async def ask(self, request):
        self.asked.append(request.id)
        try:
            await asyncio.Event().wait()
        finally:
            self.withdrawn.append(request.id)


async def test_the_first_answer_counts_and_the_others_are_asked_no_longer(desk, a_request, scripted):
    waits = Waits()
    async with desk(waits, scripted(YES)) as made:
        request = a_request()
        assert await made.decide(request) == YES
        assert waits.asked == waits.withdrawn == [request.id]
        assert made.pending() == []
        assert not made.answer(request.id, NO)


async def test_a_denial_carries_its_reason(desk, a_request, scripted):
    async with desk(scripted(NO)) as made:
        answer = await made.decide(a_request())
        assert (answer.allowed, answer.reason, answer.code) == (False, "not today", "approval_denied")


async def test_without_anybody_to_ask_it_is_denied_at_once(desk, a_request):
    async with desk() as made:
        answer = await made.decide(a_request())
        assert (answer.allowed, answer.by) == (False, "nobody")


@pytest.mark.parametrize("result", [None, RuntimeError("broke")])
async def test_approvers_that_cannot_answer_deny_once_all_of_them_have_said_so(desk, a_request, scripted, result):
    async with desk(scripted(result), scripted(result)) as made:
        answer = await made.decide(a_request())
        assert (answer.allowed, answer.by) == (False, "nobody")
    async with desk(scripted(result), scripted(YES)) as made:
        assert (await made.decide(a_request())).allowed


async def test_the_first_requests_of_a_gateway_may_come_at_once(desk, a_request):
    for _ in range(5):
        async with desk(Waits()) as made:
            deciding = [asyncio.create_task(made.decide(a_request())) for _ in range(20)]
            await until(lambda: len(made.pending()) == 20)
            for one in made.pending():
                assert made.answer(one.id, YES)
            assert all(answer.allowed for answer in await asyncio.gather(*deciding))


async def test_an_answer_that_comes_as_soon_as_the_request_is_stored_is_heard(desk, a_request, monkeypatch):
    async with desk(Waits()) as made:
        add = made.store.add

        def add_and_answer(request):
            add(request)
            assert made.answer(request.id, YES)

        monkeypatch.setattr(made.store, "add", add_and_answer)
        # The first look finds a change in any case.
        made.store.changed()
        async with asyncio.timeout(20):
            assert (await made.decide(a_request())).allowed


async def test_the_deadline_is_a_denial_of_its_own_code(desk, a_request):
    async with desk(Waits()) as made:
        request = a_request(deadline=time.time() + 0.05)
        answer = await made.decide(request)
        assert (answer.allowed, answer.code) == (False, "approval_timeout")
        assert not made.answer(request.id, YES)


async def test_a_deadline_that_has_passed_asks_nobody(desk, a_request):
    waits = Waits()
    async with desk(waits) as made:
        assert (await made.decide(a_request(deadline=time.time() - 1))).code == "approval_timeout"


async def test_an_approver_for_one_scope_hears_of_that_scope_alone(desk, a_request, scripted, tmp_path):
    theirs, ours = scripted(NO), scripted(YES)
    async with desk() as made:
        detach = made.attach(theirs, scope_key="another")
        made.attach(ours, scope_key="ours")
        assert (await made.decide(a_request(scope_key="ours"))).allowed
        assert not theirs.asked
        detach()
        assert (await made.decide(a_request(scope_key="another"))).by == "nobody"


async def test_whoever_comes_later_is_asked_what_still_waits(desk, a_request, scripted):
    async with desk(Waits()) as made:
        deciding = asyncio.create_task(made.decide(a_request()))
        await until(made.pending)
        made.attach(scripted(YES))
        assert (await deciding).allowed


async def test_pages_may_look_and_answer_from_threads_of_their_own(desk, a_request):
    async with desk(Waits()) as made:
        deciding = [asyncio.create_task(made.decide(a_request())) for _ in range(10)]
        seen: list[str] = []
        while len(seen) < 10:
            found = await asyncio.gather(*(asyncio.to_thread(made.pending) for _ in range(4)))
            new = {one.id for one in found[0]} - set(seen)
            assert all(await asyncio.gather(*(asyncio.to_thread(made.answer, one, YES) for one in new)))
            seen += new
        assert all(answer.allowed for answer in await asyncio.gather(*deciding))


async def test_an_answer_stored_by_another_process_is_noticed(desk, a_request):
    async with desk(Waits()) as made:
        request = a_request()
        deciding = asyncio.create_task(made.decide(request))
        await until(made.pending)
        elsewhere = Store(os.path.dirname(made.store.file))
        assert [one.id for one in elsewhere.pending()] == [request.id]
        assert elsewhere.answer(request.id, YES)
        assert not elsewhere.answer(request.id, NO)
        assert await deciding == YES
        elsewhere.close()


async def test_a_caller_that_leaves_takes_its_request_along(desk, a_request):
    async with desk(Waits()) as made:
        request = a_request()
        deciding = asyncio.create_task(made.decide(request))
        await until(made.pending)
        deciding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deciding
        assert made.pending() == []
        assert not made.answer(request.id, YES)


async def test_a_desk_that_closes_denies_what_waits(desk, a_request):
    async with desk(Waits()) as made:
        deciding = asyncio.create_task(made.decide(a_request()))
        await until(made.pending)
    answer = await deciding
    assert (answer.allowed, answer.by) == (False, "restart")


async def test_changes_are_watched_from_here_and_from_elsewhere(desk, a_request):
    async with desk(Waits()) as made:
        seen = []

        async def look():
            async for pending in made.watch():
                seen.append([one.id for one in pending])  # noqa: PERF401  it is looked at meanwhile

        looking = asyncio.create_task(look())
        request = a_request()
        deciding = asyncio.create_task(made.decide(request))
        await until(lambda: [request.id] in seen)
        elsewhere = Store(os.path.dirname(made.store.file))
        elsewhere.answer(request.id, YES)
        elsewhere.close()
        await deciding
        await until(lambda: seen[-1] == [])
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def test_an_agent_cannot_bury_the_others_requests_under_its_own(desk, a_request, scripted, monkeypatch):
    monkeypatch.setattr(desks, "_MOST_OF_A_SCOPE", 3)
    async with desk(Waits()) as made:
        waiting = [asyncio.create_task(made.decide(a_request())) for _ in range(3)]
        await until(lambda: len(made.pending()) == 3)
        refused = await made.decide(a_request())
        assert "too many" in refused.reason
        made.attach(scripted(YES), scope_key="another")
        assert (await made.decide(a_request(scope_key="another"))).allowed
        for one in made.pending():
            made.answer(one.id, NO)
        await asyncio.gather(*waiting)


async def test_what_would_be_denied_for_the_crowd_is_known_beforehand_unless_a_lease_may_cover_it(
    desk, a_request, scripted, monkeypatch
):
    monkeypatch.setattr(desks, "_MOST_OF_A_SCOPE", 2)
    request = a_request()
    async with desk(Waits()) as made:
        assert await made.refused(request.agent, request.scope_key) is None
        waiting = [asyncio.create_task(made.decide(a_request())) for _ in range(2)]
        await until(lambda: len(made.pending()) == 2)
        refused = await made.refused(request.agent, request.scope_key)
        assert "too many" in refused.reason
        assert await made.refused(request.agent, "another") is None
        made.answer(made.pending()[0].id, Answer(allowed=True, grant="session", by="test"))
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        waiting += [asyncio.create_task(made.decide(a_request(sender="bob")))]
        await until(lambda: len(made.pending()) == 2)
        assert await made.refused(request.agent, request.scope_key) is None
        for one in made.pending():
            made.answer(one.id, NO)
        await asyncio.gather(*waiting)


async def test_asking_and_withdrawing_without_end_does_not_fill_the_disk(desk, a_request, monkeypatch):
    monkeypatch.setattr(stores, "_MOST_KEPT", 10)
    monkeypatch.setattr(stores, "_LOOK_EVERY", 5)
    async with desk(Waits()) as made:
        others = a_request(agent="other", scope_key="other")
        staying = asyncio.create_task(made.decide(others))
        await until(made.pending)
        for _ in range(60):
            request = a_request()
            asking = asyncio.create_task(made.decide(request))
            await until(partial(made.store.find, request.id))
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        assert not made.answer(request.id, YES)
        assert made.store.find(request.id) is not None, "whoever looks later is told that it is no longer pending"
        ((kept,),) = made.store.read("SELECT count(*) FROM requests")
        assert kept <= 20
        assert made.answer(others.id, YES)
        assert (await staying).allowed


async def test_many_scopes_of_one_agent_cannot_fill_the_desk(desk, a_request, monkeypatch):
    monkeypatch.setattr(desks, "_MOST_OF_AN_AGENT", 12)
    async with desk(Waits()) as made:
        flood = [asyncio.create_task(made.decide(a_request(scope_key=f"s{number}"))) for number in range(40)]
        await until(lambda: sum(task.done() for task in flood) == 40 - 12)
        refused = next(task.result() for task in flood if task.done())
        assert "requests of the agent main are already waiting" in refused.reason
        asked = asyncio.create_task(made.decide(a_request(agent="other", scope_key="theirs")))
        await until(lambda: len(pending := made.pending()) == 13 and any(one.agent == "other" for one in pending))
        for one in made.pending():
            made.answer(one.id, YES if one.agent == "other" else NO)
        assert (await asked).allowed
        await asyncio.gather(*flood)


async def test_a_full_desk_still_takes_the_first_requests_of_who_has_few(desk, a_request, monkeypatch):
    monkeypatch.setattr(desks, "_MOST", 20)
    async with desk(Waits()) as made:
        flood = [asyncio.create_task(made.decide(a_request(agent=f"a{n % 2}", scope_key=f"s{n}"))) for n in range(40)]
        await until(lambda: sum(task.done() for task in flood) == 20)
        asked = [asyncio.create_task(made.decide(a_request(agent="other", scope_key="theirs"))) for _ in range(10)]
        await until(lambda: sum(one.agent == "other" for one in made.pending()) == 8)
        for one in made.pending():
            made.answer(one.id, NO)
        await asyncio.gather(*flood, *asked)


async def test_a_store_that_cannot_be_written_lets_nothing_through(desk, a_request, scripted):
    async with desk(scripted(YES)) as made:
        made.store.announce()
        with sqlite3.connect(made.store.file) as db:
            db.execute("ALTER TABLE requests RENAME TO hidden")
        db.close()
        with pytest.raises(StoreUnavailable, match="cannot be written"):
            await made.decide(a_request())


async def test_the_store_is_private_whatever_the_umask(desk, a_request, scripted, tmp_path):
    before = os.umask(0)
    try:
        async with desk(scripted(YES)) as made:
            await made.decide(a_request())
            for name in os.listdir(tmp_path / "state"):
                assert stat.S_IMODE(os.stat(tmp_path / "state" / name).st_mode) == 0o600, name
    finally:
        os.umask(before)


def test_a_link_in_the_place_of_the_store_is_refused(tmp_path):
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable):
        Store(str(tmp_path))
    assert not (tmp_path / "elsewhere").exists()


ASKS_AND_DIES = """
import asyncio, json, os, sys
from crabpot.approvals.desk import Desk
from crabpot.approvals.leases import Leases
from crabpot.approvals.requests import Request
class Waits:
    async def ask(self, request):
        print("asked", flush=True)
        await asyncio.Event().wait()
async def main():
    desk = Desk(sys.argv[1])
    desk.attach(Waits())
    await desk.decide(Request.from_json(json.loads(sys.argv[2])))
asyncio.run(main())
"""


def test_what_a_dead_gateway_asked_is_denied_and_can_no_longer_be_answered(tmp_path, a_request):
    state, first, second = str(tmp_path), a_request(), a_request()
    for request in (first, second):
        command = [sys.executable, "-c", ASKS_AND_DIES, state, json.dumps(request.as_json())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as asking:
            assert asking.stdout.readline() == b"asked\n"
            operator = Store(state)
            assert [one.id for one in operator.pending()] == [request.id]
            asking.kill()
            asking.wait()
        if request is first:
            assert not operator.answer(request.id, YES)
        else:
            restarted = Store(state)
            restarted.announce()
            restarted.close()
        assert operator.pending() == []
        ((answer,),) = operator.read("SELECT answer FROM requests WHERE id = ?", (request.id,))
        assert json.loads(answer)["by"] == "restart"
        operator.close()


# --- 200 at once ----------------------------------------------------------------------------------------------------------


# A process of its own, not a fork: a forked child would inherit the locks of SQLite as this process holds them.
ANSWERS_ALL = """
import json, sys
from crabpot.approvals.requests import Answer, denied
from crabpot.approvals.store import Store

state, name, ids = json.load(sys.stdin)
store = Store(state)
counted = []
for position, request_id in enumerate(ids):
    allowed = (position + name) % 2 == 0
    answer = Answer(allowed=True, by=f"process {name}") if allowed else denied(f"process {name}")
    if store.answer(request_id, answer):
        counted.append((request_id, allowed))
store.close()
print(json.dumps(counted))
"""


async def answer_all(state, name, ids):
    """Answer every request from another process, half of them with yes; return the answers that counted."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ANSWERS_ALL, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate(json.dumps([state, name, ids]).encode())
    assert process.returncode == 0
    return name, json.loads(out)


async def test_of_200_requests_with_racing_answers_each_is_answered_once_and_runs_by_its_own_alone(tmp_path, a_request):
    state = str(tmp_path / "state")
    made = Desk(state)
    made.attach(Waits())
    started = []

    async def call(request):
        answer = await made.decide(request)
        if answer.allowed:
            started.append(request.id)
        return request.id, answer

    wanted = [a_request(agent=f"a{n % 8}", scope_key=f"s{n % 8}", argv=("git", "push", str(n))) for n in range(200)]
    deciding = [asyncio.create_task(call(request)) for request in wanted]
    await until(lambda: len(made.pending()) == 200)
    ids = [request.id for request in wanted]
    orders = (ids, ids[::-1], ids[100:] + ids[:100], ids[::2] + ids[1::2])
    told = await asyncio.gather(*(answer_all(state, name, order) for name, order in enumerate(orders)))
    decided = dict(await asyncio.gather(*deciding))
    counted = {}
    for name, own in told:
        for request_id, allowed in own:
            assert request_id not in counted, "answered twice"
            counted[request_id] = (name, allowed)
    assert set(counted) == set(ids)
    for request_id, answer in decided.items():
        assert (answer.by, answer.allowed) == (f"process {counted[request_id][0]}", counted[request_id][1])
    assert sorted(started) == sorted(request_id for request_id, (_, allowed) in counted.items() if allowed)
    for request in wanted:
        assert made.store.use(request) is None, "an answer is used once"
    await made.close()


def test_a_request_that_waits_is_parsed_once_and_one_that_changed_is_read_as_it_is(tmp_path, a_request):
    store = Store(str(tmp_path))
    request = a_request()
    store.add(request)
    (first,) = store.pending()
    (again,) = store.pending()
    assert first == request
    assert again is first
    changed = json.dumps({**request.as_json(), "sender": "mallory"})
    with sqlite3.connect(store.file) as db:
        db.execute("UPDATE requests SET body = ?", (changed,))
    db.close()
    assert [one.sender for one in store.pending()] == ["mallory"]
    store.close()


async def test_whoever_looks_does_not_wait_for_those_who_write(tmp_path, a_request):
    store = Store(str(tmp_path))
    request = a_request()
    store.add(request)
    with store.transaction():
        # In another thread: the lock of those who write may be taken again by whoever has it.
        assert await asyncio.wait_for(asyncio.to_thread(store.pending), 20) == [request]
        assert await asyncio.wait_for(asyncio.to_thread(store.answered, [request.id]), 20) == []
    store.close()


async def test_what_another_process_adds_is_pending_here_at_the_next_look(tmp_path, a_request):
    here, elsewhere = Store(str(tmp_path)), Store(str(tmp_path))
    first, second = a_request(), a_request()
    here.add(first)
    assert here.pending() == here.pending() == [first]
    elsewhere.add(second)
    assert here.pending() == [first, second]
    elsewhere.answer(first.id, NO)
    assert here.pending() == [second]
    for one in (elsewhere, here):
        one.close()


class Counting(Store):
    """A store that counts those who write at the same time."""

    adding = most = 0

    def add(self, request):
        self.adding += 1
        self.most = max(self.most, self.adding)
        super().add(request)
        self.adding -= 1


async def test_one_agent_stores_one_request_at_a_time(tmp_path, a_request):
    made = Desk(str(tmp_path))
    counting = Counting(str(tmp_path))
    made._opened = counting, Leases(counting)
    made.attach(Waits())

    async def ask():
        with acting_for("hostile", "agent:hostile:main"):
            return await made.decide(a_request(agent="hostile"))

    crowd = [asyncio.create_task(ask()) for _ in range(20)]
    await until(lambda: len(made.pending()) == 20)
    assert counting.most == 1
    await made.close()
    assert {answer.by for answer in await asyncio.gather(*crowd)} == {"restart"}


async def test_a_request_that_is_withdrawn_is_never_used_even_if_it_was_answered_first(tmp_path, a_request):
    store = Store(str(tmp_path))
    asked, answered = a_request(), a_request()
    for request in (asked, answered):
        store.add(request)
    store.answer(answered.id, YES)
    for request in (asked, answered):
        store.withdraw(request.id)
        assert store.use(request) is None
        assert not store.answer(request.id, YES)
    assert store.pending() == []
    store.close()


async def test_what_is_pending_is_listed_without_a_thread_until_anybody_writes(desk, a_request):
    async with desk(Waits()) as made:
        threads = CountedThreads.of_this_loop()
        assert await made.listed() == []
        elsewhere = Store(os.path.dirname(made.store.file))
        requests = []
        for writer in (made.store, elsewhere):
            requests.append(a_request())
            writer.add(requests[-1])
            before = threads.jobs
            assert [one.id for one in await made.listed()] == [one.id for one in requests]
            assert threads.jobs == before + 1
            for _ in range(3):
                assert [one.id for one in await made.listed()] == [one.id for one in requests]
            assert threads.jobs == before + 1
        # The kernel says at once who has ended, and nothing has been written: its request is denied, in a thread.
        elsewhere.close()
        assert [one.id for one in await made.listed()] == [requests[0].id]


async def test_what_is_past_its_deadline_is_listed_no_more_though_nobody_wrote(desk, a_request):
    async with desk(Waits()) as made:
        made.store.add(a_request(deadline=time.time() + 0.2))
        assert len(await made.listed()) == 1
        await until(lambda: made.store.known() == [])


async def test_whoever_looks_while_another_thread_reads_does_not_wait_for_it(desk, a_request):
    async with desk(Waits()) as made:
        made.store.add(a_request())
        assert len(await made.listed()) == 1
        with made.store._view._looking:
            assert made.store.known() is None
        assert len(made.store.known()) == 1
