"""What is written of a call, and what never is."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.audit.chain import text_of
from crabpot.audit.records import of_call, of_elevated_command, of_intent, of_opening
from crabpot.model import Failure, Place, ToolCall, ToolResult, Verdict
from crabpot.spec.build import build

SECRET = "hunter2-" * 4
BY = Verdict(answer=True, because="sandbox mode is off", source="agents.defaults.sandbox.mode")


def call(tool="exec", sender=None, session="agent:main:main", **args):
    return ToolCall(id="id-1", session=session, tool=tool, args=args, sender=sender)


def test_an_intent_says_who_what_and_by_which_rule():
    assert of_intent(call(command="ls", cwd="/x"), "main", BY) == {
        "kind": "intent",
        "call": "id-1",
        "session": "agent:main:main",
        "agent": "main",
        "sender": None,
        "tool": "exec",
        "args": {"command": "ls", "cwd": "/x"},
        "because": "sandbox mode is off",
        "rule": "agents.defaults.sandbox.mode",
    }


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        ("", []),
        ("network: 'internet', binds: ['/srv/a:/a']", []),
        ("network: 'host'", ["the sandbox has the host's network"]),
        ("network: 'bridge'", ["the sandbox has docker's bridge"]),
        ("network: 'lab'", ["the sandbox has the network lab"]),
        ("network: {raw: ['db.example.com:5432']}", ["traffic to db.example.com:5432 passes unchecked"]),
        ("binds: ['/srv/a:/a:rw', '/srv/b:/b:ro']", ["the agent may change /srv/a"]),
        ("docker: {seccomp: '/srv/own.json'}", ["a custom seccomp profile replaces Crabpot's own"]),
    ],
)
def test_an_opening_warns_about_what_the_configuration_opened(settings, warned, agent_of, around):
    agent = agent_of(f"{{agents: {{defaults: {{sandbox: {{{settings}}}}}}}}}")
    spec = build(agent, "agent:main:main", around)
    record = of_opening(spec, "bubblewrap", [])
    assert (record["sandbox"], record["hash_of_spec"], record["warnings"]) == (spec.name, spec.hash, warned)


@pytest.mark.parametrize(("by", "warned"), [("config", ["nobody was asked: requireApproval is false"]), ("alice", [])])
def test_a_command_that_nobody_was_asked_about_is_recorded_with_a_warning(by, warned):
    request = {"id": "r", "shown": "ls", "binary": None, "folder": None, "host": None, "port": None}
    record = of_elevated_command(call(command="ls"), "main", BY, request, by)
    assert (record["kind"], record["by"], record["warnings"]) == ("intent", by, warned)


def test_an_end_says_where_it_ran_and_how_it_ended():
    result = ToolResult(
        id="id-1",
        success=False,
        stdout="1234",
        stderr="56",
        exit_code=137,
        error=Failure(code="memory_limit", message="m"),
        truncated=True,
        place=Place.SANDBOX,
        duration_ms=1.5,
    )
    record = of_call(call(command="ls"), "main", result, BY)
    expected = {
        "kind": "call",
        "place": "sandbox",
        "success": False,
        "exit_code": 137,
        "error": "memory_limit",
        "sizes": {"stdout": 4, "stderr": 2},
        "truncated": True,
        "duration_ms": 1.5,
    }
    assert expected.items() <= record.items()


@pytest.mark.parametrize(
    "args",
    [
        {"path": "x", "content": SECRET},
        {"path": "x", "old": SECRET, "new": SECRET},
        {"patch": SECRET},
        {"command": "cat", "stdin": SECRET},
        {"command": "env", "env": {"TOKEN": SECRET}},
        {"action": "write", "id": "p1", "data": SECRET},
        {"anything": [SECRET], "else": {"a": {"b": SECRET}}, "more": SECRET.encode()},
        {"path": {"nested": SECRET}, "command": [{"not": SECRET}], "id": SECRET.encode()},
    ],
)
def test_contents_inputs_and_values_of_the_environment_are_never_written(args):
    result = ToolResult(id="id-1", success=True, stdout=SECRET, stderr=SECRET, data={"content": SECRET})
    for record in (of_intent(call(**args), "main", BY), of_call(call(**args), "main", result, BY)):
        assert "hunter2" not in text_of(record)


def test_an_argv_is_recorded_as_the_text_of_the_same_words():
    assert of_intent(call(command=["echo", "a b", 3]), "main", BY)["args"] == {"command": "echo 'a b' int"}


def test_sizes_and_names_stand_for_what_is_not_shown():
    args = of_intent(call(stdin="abc", env={"B": "x", "A": "y"}, tty=True), "main", BY)["args"]
    assert args == {"stdin": {"size": 3}, "env": {"names": ["B", "A"]}, "tty": None}


def test_digests_prove_what_was_written_and_what_came_back():
    digest = hashlib.sha256("täglich".encode()).hexdigest()
    assert of_intent(call("write", path="x", content="täglich"), "main", BY)["args"] == {
        "path": "x",
        "content": {"size": 7, "sha256": digest},
    }
    result = ToolResult(id="1", success=True, stdout="täglich", data={"content": "täglich"}, place=Place.SANDBOX)
    assert of_call(call(command="x"), "main", result, BY)["digests"] == {"stdout": digest, "content": digest}


@pytest.mark.parametrize("args", [{"stdin": "1234"}, {"data": "1234"}, {"env": {"PIN": "1234"}}, {"old": "1234"}])
def test_no_digest_of_what_may_be_a_short_secret(args):
    assert "sha256" not in str(of_intent(call(**args), "main", BY))


def test_what_an_agent_makes_long_is_cut():
    many = {f"name{number}": "x" for number in range(10_000)}
    huge = "x" * 1_000_000
    made = ToolCall(id="1", session=huge, tool=huge, args={"command": huge, "env": many, **many}, sender=huge)
    assert len(text_of(of_intent(made, "main", BY))) < 40_000


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**5000, -(10**400)], ids=["nan", "inf", "huge", "low"])
def test_numbers_that_json_cannot_hold_are_left_out(value):
    text = text_of(of_intent(call(timeout=value), "main", BY))
    assert json.loads(text)["args"] == {"timeout": None}


def test_names_that_are_no_text_are_shown_by_their_kind():
    assert of_intent(call(env={10**5000: "x", None: "y"}), "main", BY)["args"] == {
        "env": {"names": ["int", "NoneType"]}
    }


names = st.text(max_size=8) | st.integers() | st.none()
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(object),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3) | st.sets(st.integers()),
    max_leaves=8,
)
keys = st.sampled_from(["command", "path", "timeout", "id", "env", "content"]) | st.text(st.characters(), max_size=8)


@given(st.dictionaries(keys, values), st.text(st.characters()), st.none() | st.text(st.characters()))
def test_every_call_can_be_written(args, text, sender):
    made = ToolCall(id="1", session=text or "x", tool=text, args=args, sender=sender)
    record = of_intent(made, "main", BY)
    written = text_of(record)
    written.encode()
    assert json.loads(written)["kind"] == "intent"
    record["session"].encode()
