"""A lease covers the very same request of the very same sender, until it ends; and it can be ended at any moment."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import pytest

from crabpot.approvals.desk import Desk
from crabpot.approvals.requests import Answer, FolderIdentity, denied
from crabpot.approvals.store import Store

SESSION = Answer(allowed=True, grant="session", by="test")
MINUTES = Answer(allowed=True, grant="minutes", minutes=5, by="test")


async def test_a_grant_for_the_session_or_for_minutes_is_asked_for_once(desk, a_request, scripted):
    for grant in (SESSION, MINUTES):
        approver = scripted(grant)
        async with desk(approver) as made:
            first, second = a_request(), a_request()
            assert await made.decide(first) == grant
            answer = await made.decide(second)
            assert approver.asked == [first.id]
            (lease,) = made.leases.listed()
            assert (answer.allowed, answer.by, lease.uses) == (True, f"lease {lease.id}", 1)
            assert (lease.expires_at is None) is (grant is SESSION)


@pytest.mark.parametrize("answer", [Answer(allowed=True, by="test"), denied("test")])
async def test_what_was_allowed_once_or_denied_is_asked_again(desk, a_request, scripted, answer):
    approver = scripted(answer)
    async with desk(approver) as made:
        await made.decide(a_request())
        await made.decide(a_request())
        assert len(approver.asked) == 2
        assert made.leases.listed() == []


async def test_a_lease_is_of_no_use_to_anything_else(desk, a_request, scripted):
    approver = scripted(SESSION)
    async with desk(approver) as made:
        one = a_request()
        await made.decide(one)
        approver.answer = denied("test")
        others: list[dict[str, Any]] = [
            {"sender": "bob"},
            {"sender": None},
            {"scope_key": "agent:main:other"},
            {"argv": (*one.argv, "--force")},
            {"argv": ("git", "push", "origin main")},
            {"binary": replace(one.binary, ino=99)},
            {"binary": replace(one.binary, sha256="0" * 64)},
            {"binary": replace(one.binary, mtime_ns=5)},
            {"folder": FolderIdentity(path=one.folder.path, dev=1, ino=99)},
            {"executes": ("core.sshCommand of .git/config",)},
        ]
        for change in others:
            assert not (await made.decide(a_request(**change))).allowed, change
        assert (await made.decide(a_request(session="another of the same scope"))).allowed


async def test_a_revoked_lease_ends_at_once_also_when_another_process_revokes_it(desk, a_request, scripted):
    approver = scripted(SESSION)
    async with desk(approver) as made:
        await made.decide(a_request())
        (lease,) = made.leases.listed()
        elsewhere = Desk(os.path.dirname(made.store.file))
        assert [one.id for one in elsewhere.leases.listed()] == [lease.id]
        assert elsewhere.leases.revoke(lease.id)
        assert not elsewhere.leases.revoke(lease.id)
        await elsewhere.close()
        approver.answer = denied("test")
        assert not (await made.decide(a_request())).allowed
        assert made.leases.listed() == []


async def test_an_expired_lease_is_none_and_neither_is_one_of_a_clock_that_was_set_back(desk, a_request, scripted):
    approver = scripted(MINUTES)
    async with desk(approver) as made:
        await made.decide(a_request())
        approver.answer = denied("test")
        for column, moment in (("expires_at", time.time() - 1), ("granted_at", time.time() + 3600)):
            with made.store.transaction() as db:
                db.execute("UPDATE leases SET expires_at = ?, granted_at = ?", (time.time() + 60, time.time() - 60))
                db.execute(f"UPDATE leases SET {column} = ?", (moment,))
            assert not (await made.decide(a_request())).allowed, column


@pytest.mark.parametrize("grant", [SESSION, MINUTES])
async def test_a_lease_survives_a_restart_only_if_it_was_asked_to(desk, a_request, scripted, grant):
    async with desk(scripted(grant)) as made:
        await made.decide(a_request(argv=("git", "forgotten")))
    async with desk(scripted(replace(grant, keep=True))) as made:
        await made.decide(a_request(argv=("git", "kept")))
    async with desk() as made:
        assert not (await made.decide(a_request(argv=("git", "forgotten")))).allowed
        assert (await made.decide(a_request(argv=("git", "kept")))).allowed
        assert [lease.request.argv[1] for lease in made.leases.listed()] == ["kept"]


async def test_a_lease_of_a_gateway_that_lives_is_not_another_gateways(desk, a_request, scripted):
    async with desk(scripted(SESSION)) as made, desk() as other:
        await made.decide(a_request())
        other.store.announce()
        assert not (await other.decide(a_request())).allowed
        assert [lease.as_json()["request"]["shown"] for lease in other.leases.listed()] == ["git push origin main"]


async def test_what_can_never_be_used_again_does_not_pile_up(desk, a_request, scripted):
    async with desk(scripted(SESSION)) as made:
        await made.decide(a_request())
        state = os.path.dirname(made.store.file)
        with made.store.transaction() as db:
            db.execute("UPDATE requests SET answered_at = 1")
    again = Store(state)
    again.announce()
    assert again.read("SELECT * FROM requests") == again.read("SELECT * FROM leases") == []
    again.close()
