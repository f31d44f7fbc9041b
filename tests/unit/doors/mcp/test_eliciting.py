"""Approvals by elicitation: only where the operator opted in, answered to the letter, once, and by nobody else's client."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from mcp.client._memory import InMemoryTransport
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from crabpot.approvals.requests import Answer
from crabpot.doors.inflight import Calls
from crabpot.doors.mcp.server import Caller, Tools
from tests.support.waiting import until

S = "agent:main:main"
# `id` is on every machine, and changes nothing.
ELEVATED = """{
  agents: {defaults: {workspace: "WS", sandbox: {workspace: "rw"}}},
  tools: {elevated: {enabled: true, patterns: ["id *"], approvalTimeout: 30}},
}"""


def person_at(mode, bench):
    """Return a client of an era whose person says what `says` gives, and what it was asked."""

    @asynccontextmanager
    async def talk(says, *, elicits=True, text=ELEVATED):
        asked = []

        async def person(_context, params):
            asked.append(params.message)
            said = says(params)
            return await said if asyncio.iscoroutine(said) else said

        async with bench(text) as made:
            made.workspace.mkdir(exist_ok=True)
            calls = Calls()
            caller = Caller(session=S, sender="me", name="desk", elicits=elicits, structured=True)
            tools = Tools(gateway=made.gateway, calls=calls, caller=lambda _: caller)
            answering = None if says is None else person
            async with Client(InMemoryTransport(tools.server()), mode=mode, elicitation_callback=answering) as client:
                yield SimpleNamespace(client=client, asked=asked, made=made, tools=tools)
            await calls.close(grace_s=0)

    return talk


@pytest.fixture(params=["legacy", "auto"])
def talking(request, bench):
    return person_at(request.param, bench)


@pytest.fixture
def carrying(bench):
    """The same since 2026: a client carries the state of what it was asked."""
    return person_at("auto", bench)


def accept(**content):
    return lambda _params: ElicitResult(action="accept", content=content)


async def run(made, command="id -u"):
    return (await made.client.call_tool("exec", {"command": command})).structured_content


async def test_a_person_who_agrees_lets_one_command_out(talking):
    async with talking(accept(decision="allow once")) as made:
        result = await run(made)
        assert (result["place"], result["error"]) == ("host", None)
        (message,) = made.asked
        for part in ("run on the HOST", "id -u", "id *", "tools.elevated.patterns[0]", S, "me"):
            assert part in message
        await run(made)
        assert len(made.asked) == 2


async def test_for_the_session_means_that_the_same_is_not_asked_again(talking):
    async with talking(accept(decision="allow for this session")) as made:
        assert (await run(made))["place"] == "host"
        assert (await run(made))["place"] == "host"
        assert len(made.asked) == 1
        assert (await run(made, "id -g"))["place"] == "host"
        assert len(made.asked) == 2


@pytest.mark.parametrize(
    "says",
    [
        accept(decision="deny", reason="not today"),
        accept(decision="yes"),
        accept(decision="ALLOW ONCE"),
        accept(reason="allow once"),
        accept(),
        lambda _params: ElicitResult(action="accept"),
        lambda _params: ElicitResult(action="decline", content={"decision": "allow once"}),
        lambda _params: ElicitResult(action="cancel"),
    ],
)
async def test_whatever_is_no_allowance_to_the_letter_is_a_denial(talking, says):
    async with talking(says) as made:
        result = await run(made)
        assert (result["error"]["code"], result["place"]) == ("approval_denied", "none")
        assert len(made.asked) == 1


async def test_a_client_for_which_nobody_opted_in_is_never_asked(talking):
    async with talking(accept(decision="allow once"), elicits=False) as made:
        assert (await run(made))["error"]["code"] == "approval_denied"
        assert made.asked == []


async def test_a_client_that_cannot_show_a_form_is_not_asked(talking):
    async with talking(None) as made:
        assert (await run(made))["error"]["code"] == "approval_denied"


async def test_another_door_may_answer_first_and_the_client_is_left_alone(talking):
    back = asyncio.Event()

    async def silent(_params):
        await back.wait()
        return ElicitResult(action="decline")

    async with talking(silent) as made:
        running = asyncio.create_task(run(made))
        (request,) = await until(made.made.gateway.desk.pending)
        await until(lambda: made.asked)
        assert made.made.gateway.desk.answer(request.id, Answer(allowed=True, by="another door"))
        if made.client.protocol_version >= "2026":
            # Since 2026 a client comes back by itself; it finds the result, whatever it says.
            back.set()
        assert (await running)["place"] == "host"
        back.set()


async def test_what_a_client_was_told_to_bring_back_is_worth_nothing_to_others(carrying):
    async with carrying(accept(decision="allow once")) as made:
        session = made.client.session
        first = await session.call_tool("exec", {"command": "id -u"}, allow_input_required=True)
        state = first.request_state
        said = {key: ElicitResult(action="accept", content={"decision": "allow once"}) for key in first.input_requests}
        for name, args, given in (
            ("exec", {"command": "id -g"}, state),
            ("read", {"path": "x"}, state),
            ("exec", {"command": "id -u"}, "guess"),
        ):
            with pytest.raises(MCPError, match="has ended, or was a different one"):
                await session.call_tool(
                    name, args, input_responses=said, request_state=given, allow_input_required=True
                )
        done = await session.call_tool(
            "exec", {"command": "id -u"}, input_responses=said, request_state=state, allow_input_required=True
        )
        assert done.structured_content["place"] == "host"
        with pytest.raises(MCPError, match="has ended"):
            await session.call_tool(
                "exec", {"command": "id -u"}, input_responses=said, request_state=state, allow_input_required=True
            )


async def test_coming_back_without_an_answer_is_a_denial(carrying):
    async with carrying(accept(decision="allow once")) as made:
        session = made.client.session
        first = await session.call_tool("exec", {"command": "id -u"}, allow_input_required=True)
        done = await session.call_tool(
            "exec", {"command": "id -u"}, request_state=first.request_state, allow_input_required=True
        )
        assert done.structured_content["error"]["code"] == "approval_denied"


async def test_two_calls_at_once_are_each_asked_about_once(talking):
    async with talking(accept(decision="allow once")) as made:
        results = await asyncio.gather(run(made, "id -u"), run(made, "id -g"))
        assert [result["place"] for result in results] == ["host", "host"]
        assert sorted(("id -g" in message) for message in made.asked) == [False, True]


async def test_nothing_that_deceives_the_eye_is_in_the_question(talking):
    async with talking(accept(decision="deny")) as made:
        await run(made, "id -u 'a  b'")
        await run(made, "id -u '\u202eevil'")
        assert len(made.asked) == 1
        assert "\u202e" not in made.asked[0]
