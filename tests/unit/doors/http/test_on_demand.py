"""The routes are made by the first request that is admitted, once for all who come meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from crabpot.doors.http import api
from crabpot.errors import CrabpotError
from tests.support.gateways import ON_HOST

HEALTH = "/v1/sandboxes"


@pytest.fixture
def made(monkeypatch):
    """Count how often the routes were made."""
    times = []

    def counted(*of):
        times.append(of)
        return complete(*of)

    complete = api.complete
    monkeypatch.setattr(api, "complete", counted)
    return times


async def test_whoever_is_refused_at_the_door_does_not_have_them_made(door, made):
    async with door(ON_HOST) as opened:
        assert (await opened.stranger.get(HEALTH)).status_code == 401
        assert (await opened.client("no such token").get(HEALTH)).status_code == 401
        assert made == []
        assert (await opened.operator.get(HEALTH)).status_code == 200
        assert len(made) == 1


async def test_those_who_come_at_once_wait_for_the_same_routes(door, made):
    async with door(ON_HOST) as opened:
        answers = await asyncio.gather(*(opened.operator.get(HEALTH) for _ in range(8)))
        assert [answer.status_code for answer in answers] == [200] * 8
        assert len(made) == 1


async def test_the_first_to_come_may_leave_and_the_others_are_answered(door, made):
    async with door(ON_HOST) as opened:
        first = asyncio.create_task(opened.operator.get(HEALTH))
        others = [asyncio.create_task(opened.operator.get(HEALTH)) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
        assert [answer.status_code for answer in await asyncio.gather(*others)] == [200] * 3
        assert len(made) == 1


async def test_routes_that_could_not_be_made_answer_nobody_and_are_tried_again(door, monkeypatch):
    def failing(*_of):
        raise CrabpotError("no memory")

    async with door(ON_HOST) as opened:
        with monkeypatch.context() as patched:
            patched.setattr(api, "complete", failing)
            assert (await opened.operator.get(HEALTH)).status_code == 500
        assert (await opened.operator.get(HEALTH)).status_code == 200
