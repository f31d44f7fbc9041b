"""An agent that opens a hundred sandboxes has no more connections at once than an agent may have."""

from __future__ import annotations

import asyncio
from typing import Any

from crabpot.decide.scope import ACTING_FOR, Account, Scope
from crabpot.sandboxes.answering import Answering
from crabpot.scheduling.fairness import Allowance
from crabpot.settings import AgentSettings


class Asked:
    """An upcall as far as its answer needs one."""

    def __init__(self):
        self.failed = None

    def fail(self, code, message):
        self.failed = code, message


def scope(agent, name):
    return Scope(key=f"agent:{agent}:{name}", agent=AgentSettings(id=agent))


async def test_only_so_many_of_a_scope_and_of_an_agent_are_answered_at_once():
    answering = Answering(Allowance(scope=2, agent=3, agents=4, own=0))
    go_on, acting = asyncio.Event(), []

    async def connect(_upcall):
        acting.append(ACTING_FOR.get())
        await go_on.wait()

    tasks: list[Any] = []

    async def ask(agent, name):
        asked: Any = Asked()
        of = scope(agent, name)
        call = of.begin(of.key)
        answers = answering.on_behalf_of(of, {"connect": connect})
        tasks.append(asyncio.ensure_future(answers["connect"](asked)))
        await asyncio.sleep(0)
        assert call.hints == ([] if asked.failed is None else [asked.failed[1]])
        return asked.failed

    assert [await ask("bad", "one") for _ in range(2)] == [None, None]
    code, message = await ask("bad", "one")
    assert code == "process_limit"
    assert message.startswith("agent:bad:one has as many")
    assert await ask("bad", "two") is None
    assert (await ask("bad", "three"))[1].startswith("the agent bad has as many")
    assert await ask("good", "one") is None
    assert (await ask("other", "one"))[1].startswith("all agents together has as many")
    assert acting == [Account("bad", "agent:bad:one")] * 2 + [
        Account("bad", "agent:bad:two"),
        Account("good", "agent:good:one"),
    ]
    go_on.set()
    await asyncio.gather(*tasks)
    assert await ask("bad", "one") is None
    await asyncio.gather(*tasks)
