"""The tools as clients see them: what the policy leaves, described as the runner takes it."""

from __future__ import annotations

import json

import pytest

from crabpot.decide.tools import BUILT_IN
from crabpot.tools import descriptions

S = "agent:main:main"


def test_every_built_in_tool_is_described():
    assert set(descriptions.BUILT_IN) == BUILT_IN


def test_arguments_are_those_of_the_contract():
    named = {name: list(tool.input_schema()["properties"]) for name, tool in descriptions.BUILT_IN.items()}
    assert named == {
        "read": ["path", "offset", "limit", "encoding"],
        "write": ["path", "content", "encoding", "append"],
        "edit": ["path", "old", "new", "all"],
        "apply_patch": ["patch"],
        "grep": ["pattern", "path", "glob", "context", "ignore_case", "limit"],
        "glob": ["pattern", "path", "limit"],
        "ls": ["path", "all"],
        "exec": ["command", "cwd", "timeout", "env", "stdin", "background", "detach", "tty"],
        "process": ["action", "id", "data"],
    }


@pytest.mark.parametrize("tool", descriptions.BUILT_IN.values(), ids=lambda tool: tool.name)
def test_a_description_is_json_and_says_what_each_argument_is(tool):
    shown = tool.as_json()
    assert json.loads(json.dumps(shown)) == shown
    schema = shown["input_schema"]
    assert set(schema.get("required", [])) <= set(schema["properties"])
    assert schema["additionalProperties"] is False
    assert all(argument["description"] for argument in schema["properties"].values())


def test_only_what_changes_nothing_is_called_read_only():
    assert {name for name, tool in descriptions.BUILT_IN.items() if tool.read_only} == {"read", "grep", "glob", "ls"}


async def test_denied_tools_and_those_that_nobody_runs_are_not_offered(bench):
    async with bench(
        '{tools: {profile: "coding", deny: ["write"], extra: ["weather", "secret"], allow: ["weather"]}}'
    ) as made:
        assert {"write", "apply_patch", "browser", "weather"}.isdisjoint(await names(made))
        made.gateway.register("weather", weather)
        made.gateway.register("secret", weather)
        made.gateway.register("server__tool", weather)
        assert await names(made) == ["read", "edit", "grep", "glob", "ls", "exec", "process", "weather"]


async def names(made):
    return [one["name"] for one in await made.gateway.offered(S)]


def weather(city: str, days: int = 1, **more: object) -> str:
    """Say how the weather will be.

    Not always right.
    """
    return f"{city} {days} {more}"


async def test_a_host_tool_is_described_by_its_signature(bench):
    async with bench('{tools: {extra: ["weather", "print"]}}') as made:
        made.gateway.register("weather", weather)
        made.gateway.register("print", dict)
        offered = {one["name"]: one for one in await made.gateway.offered(S)}
        assert offered["weather"]["description"] == "Say how the weather will be."
        assert offered["weather"]["input_schema"] == {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        }
        assert offered["print"]["input_schema"] == {"type": "object", "properties": {}}
        assert offered["weather"]["hints"]["destructiveHint"] is True
