"""Questions about places: asked once for all who wait, withdrawn when nobody does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from crabpot.approvals.requests import Answer
from crabpot.approvals.store import StoreUnavailable
from crabpot.config.load import load
from crabpot.decide.scope import Scope
from crabpot.egress.approval import Questions, write_down
from crabpot.egress.destinations import read_authority
from crabpot.settings import AgentSettings
from crabpot.spec.binds import Surroundings
from tests.support.waiting import until

PLACE, OTHER = read_authority("new.example:443"), read_authority("other.example:443")


class Slow:
    """An operator who answers when the test says so."""

    def __init__(self):
        self.asked = []
        self.withdrawn = 0
        self.answer = asyncio.get_running_loop().create_future()

    async def decide(self, request):
        self.asked.append(request)
        try:
            return await asyncio.shield(self.answer)
        except asyncio.CancelledError:
            self.withdrawn += 1
            raise


def questions(desk, records=None):
    scope = Scope(key="agent:main:one", agent=AgentSettings(id="main"))
    return Questions(scope, desk, (records if records is not None else []).append)


async def test_connections_to_one_place_at_a_time_are_one_question():
    desk = Slow()
    records: list[Any] = []
    asking = questions(desk, records)
    waiting = [asyncio.create_task(asking.ask(PLACE, "here")) for _ in range(10)]
    waiting.append(asyncio.create_task(asking.ask(OTHER, "here")))
    await until(lambda: len(desk.asked) == 2)
    desk.answer.set_result(Answer(allowed=True, by="me"))
    assert all(answer.allowed for answer in await asyncio.gather(*waiting))
    assert [record["kind"] for record in records] == ["request", "request", "answer", "answer"]
    assert records[0]["destination"] == "new.example:443"
    await asking.ask(PLACE, "here")
    assert len(desk.asked) == 3


async def test_one_who_leaves_takes_the_question_from_nobody_and_the_last_takes_it_along():
    desk = Slow()
    asking = questions(desk)
    first, second = (asyncio.create_task(asking.ask(PLACE, "here")) for _ in range(2))
    await until(lambda: desk.asked)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not second.done()
    second.cancel()
    await until(lambda: desk.withdrawn)


async def test_a_store_that_cannot_be_written_denies():
    class Broken:
        async def decide(self, _request):
            raise StoreUnavailable("the disk is full")

    answer = await questions(Broken()).ask(PLACE, "here")
    assert not answer.allowed
    assert answer.reason == "the disk is full"


def test_what_is_written_down_leaves_the_rest_of_the_file_alone(tmp_path):
    file = tmp_path / "crabpot.json5"
    file.write_text("{ agents: { defaults: { sandbox: { network: { ask: true } } } } } // mine\n")
    for place in (PLACE, OTHER):
        write_down(str(file), "main", place)
    assert file.read_text().endswith("// mine\n")
    assert 'allow: ["new.example:443", "other.example:443"]' in file.read_text()
    write_down(None, "main", PLACE)


ASKS = "defaults: { sandbox: { network: { allow: ['old.example:443'], ask: true } } }"


@pytest.mark.parametrize(
    ("agent", "agents"),
    [
        ("ops", ASKS),
        ("main", ASKS),
        ("ops", ASKS + ", entries: { other: {}, ops: {} }"),
        ("ops", ASKS + ", entries: { OPS: { sandbox: { network: { allow: ['own.example:443'] } } } }"),
        ("ops", ASKS + ", entries: { ops: null }"),
        ("ops", ASKS + ", list: [{ id: 'other' }, { id: 'Ops' }]"),
        ("ops", ASKS + ", list: [{ id: 'other' }]"),
        ("my-bot_2", ASKS),
    ],
)
def test_it_is_written_down_for_the_agent_that_was_asked_about_and_for_no_other(tmp_path, agent, agents):
    file = tmp_path / "crabpot.json5"
    file.write_text(f"{{ // mine\n  agents: {{ {agents} }},\n}}\n")
    around = Surroundings(home=str(tmp_path / "home"), state=str(tmp_path / "state"), config=str(file))
    before = load(str(file), around, {})
    write_down(str(file), agent, PLACE)
    after = load(str(file), around, {})
    assert after.agent(agent).sandbox.network == replace(
        before.agent(agent).sandbox.network,
        allow=(*before.agent(agent).sandbox.network.allow, "new.example:443"),
    )
    assert after.agent(agent).sandbox.network.ask
    for other in ("other", "main", "ops", "somebody"):
        if other != agent:
            assert after.agent(other).sandbox == before.agent(other).sandbox
    assert file.read_text().startswith("{ // mine\n")
