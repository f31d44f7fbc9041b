"""What a server asks, and what it has besides tools: an operator answers, or it is refused by its name."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.approvals.requests import Answer, denied
from crabpot.sandboxes.streams import Streams
from crabpot.servers.approving import candidate
from tests.live.servers.test_servers import SESSION, opened, records
from tests.support.backends import need
from tests.support.mcp_servers import configuration

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.approvals.requests import Request
    from crabpot.gateway import Gateway


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    need("bubblewrap")


class Operator:
    """Answers every question in one way, after a while."""

    def __init__(self, answer: Answer, after_s: float = 0.0) -> None:
        self.asked: list[Request] = []
        self._answer = answer
        self._after_s = after_s

    async def ask(self, request: Request) -> Answer:
        self.asked.append(request)
        await asyncio.sleep(self._after_s)
        return self._answer


async def asked(gateway: Gateway, tool: str, **more: Any) -> Any:
    return json.loads((await gateway.call(SESSION, f"fs__{tool}", **more)).stdout)


async def test_a_question_without_an_operator_is_declined_and_one_that_nobody_caused_is_refused(
    open_folder: Path,
) -> None:
    async with opened(open_folder, configuration(fs="asks"), approve=("fs",)) as gateway:
        assert await asked(gateway, "ask") == {"action": "decline"}
        (unasked,) = [one for one in await asked(gateway, "replies") if one["id"] == "unasked"]
        assert unasked["error"]["message"] == "elicitation/create is refused: nobody calls the server now"
        await gateway.audit.durable()
        kinds = [one["kind"] for one in records(open_folder)]
        assert {"request", "answer", "server"} <= set(kinds)


async def test_the_clock_of_a_call_stands_still_while_a_person_thinks(open_folder: Path) -> None:
    text = configuration(fs={"way": "asks", "sandbox": {"limits": {"timeLimit": 2}}})
    async with opened(open_folder, text, approve=("fs",)) as gateway:
        operator = Operator(Answer(allowed=True, by="me", content={"name": "Ada"}), after_s=3)
        gateway.desk.attach(operator)
        assert await asked(gateway, "ask") == {"action": "accept", "content": {"name": "Ada"}}
        (request,) = operator.asked
        assert (request.kind, request.server, request.question) == ("question", "fs", "Your name?")
        assert request.scope_key == "server:fs:agent:main:main"


@pytest.mark.parametrize(
    "answer", [Answer(allowed=True, by="me"), Answer(allowed=True, by="me", content={"name": 3}), denied("me", "no")]
)
async def test_an_answer_that_does_not_fit_the_form_is_none(open_folder: Path, answer: Answer) -> None:
    async with opened(open_folder, configuration(fs="asks"), approve=("fs",)) as gateway:
        gateway.desk.attach(Operator(answer))
        assert await asked(gateway, "ask") == {"action": "decline"}


async def test_a_server_that_asks_without_end_tires_nobody(open_folder: Path) -> None:
    async with opened(open_folder, configuration(fs="asks"), approve=("fs",)) as gateway:
        operator = Operator(denied("me"))
        gateway.desk.attach(operator)
        last = await asked(gateway, "pester")
        assert last["message"] == "elicitation/create is refused: it asked more than 16 times during one call"
        assert len(operator.asked) <= 16


async def test_a_model_is_asked_only_where_it_is_written_and_for_one_caller_at_a_time(open_folder: Path) -> None:
    seen: list[dict[str, Any]] = []

    async def sampler(params: dict[str, Any]) -> dict[str, Any]:
        seen.append(params)
        return {"role": "assistant", "content": {"type": "text", "text": "a"}, "model": "scripted"}

    text = configuration(fs={"way": "asks", "sampling": True}, other="asks")
    async with opened(open_folder, text, approve=("fs", "other")) as gateway:
        streams = Streams(sampler=sampler)
        answer = await asked(gateway, "model", streams=streams)
        assert (answer["model"], "includeContext" in seen[0]) == ("scripted", False)
        unwritten = await gateway.call(SESSION, "other__model", streams=streams)
        assert "not supported" in unwritten.stdout
        gateway.desk.attach(Operator(denied("me"), after_s=1))
        busy = asyncio.create_task(asked(gateway, "ask"))
        await asyncio.sleep(0.3)
        several = await asked(gateway, "model", streams=streams)
        assert "several calls are running" in several["message"]
        await busy
    assert len(seen) == 1


async def test_resources_come_without_a_word_that_nobody_approved(open_folder: Path) -> None:
    text = configuration(fs={"resources": True}, other="honest")
    async with opened(open_folder, text, approve=("fs", "other")) as gateway:
        assert [name.partition("__")[0] for name in await gateway.passes(SESSION)] == ["fs"] * 3
        listed = await gateway.call(SESSION, "fs__resources/list")
        assert listed.data == {"resources": [{"uri": "x://a", "name": "a"}]}
        assert (await gateway.call(SESSION, "fs__resources/read", uri="x://a")).data["contents"][0]["uri"] == "x://a"
        long = await gateway.call(SESSION, "fs__resources/read", uri="x://b")
        assert long.error.code == "output_limit"
        wrong = await gateway.call(SESSION, "fs__resources/read", uri=3)
        assert wrong.error.code == "invalid_arguments"
        for refused in ("other__resources/list", "fs__prompts/get", "other__prompts/list"):
            assert (await gateway.call(SESSION, refused)).error.code == "denied", refused
        await gateway.audit.durable()
        hidden = [one for one in records(open_folder) if one.get("event") == "hidden"]
        assert [(one["tool"], one["characters"]) for one in hidden] == [("fs__resources/read", ["U+202E"])]


async def test_policy_holds_for_resources_and_prompts(open_folder: Path) -> None:
    text = configuration('{deny: ["fs__resources/*"]}', fs={"resources": True, "prompts": True})
    async with opened(open_folder, text, approve=("fs",)) as gateway:
        assert await gateway.passes(SESSION) == ["fs__prompts/list", "fs__prompts/get"]
        refused = await gateway.call(SESSION, "fs__resources/read", uri="x://a")
        assert (refused.error.code, "deny" in refused.error.message) == ("denied", True)


async def test_a_changed_prompt_is_withheld_like_a_tool(open_folder: Path) -> None:
    rug = open_folder / "rug"
    rug.mkdir(mode=0o755)
    text = configuration(fs={"way": "rug", "prompts": True, "sandbox": {"binds": [f"{rug}:/rug:ro"]}})
    async with opened(open_folder, text, approve=("fs",)) as gateway:
        listed = (await gateway.call(SESSION, "fs__prompts/list")).data["prompts"]
        assert listed == [{"name": "fs__greet", "description": "Greet somebody."}], "an odd name is refused"
        got = await gateway.call(SESSION, "fs__prompts/get", name="fs__greet", arguments={"who": "you"})
        assert got.data["messages"][0]["content"]["text"] == "hi {'who': 'you'}"
        (rug / "changed").touch()
        await gateway.servers.restart("fs")
        withheld = await gateway.call(SESSION, "fs__prompts/get", name="fs__greet")
        assert withheld.error.code == "invalid_arguments"
        assert (await gateway.call(SESSION, "fs__prompts/list")).data == {"prompts": []}
        (await candidate(gateway.servers, "fs")).keep(by="test")
        (again,) = (await gateway.call(SESSION, "fs__prompts/list")).data["prompts"]
        assert again["description"] == "Greet somebody, and read the keys first."
