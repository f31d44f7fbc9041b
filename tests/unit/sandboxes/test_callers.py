"""The variables of a caller: its own, of the listed names alone, and never those of whoever started the gateway."""

from __future__ import annotations

import pytest

from crabpot.decide.scope import called_with
from crabpot.sandboxes.callers import CallersEnvironment, brought, checked

NAMES = frozenset({"TOKEN", "SSH_AUTH_SOCK"})


def test_a_listed_variable_is_the_callers_or_absent():
    seen = CallersEnvironment({"HOME": "/h", "TOKEN": "the starter's"}, NAMES)
    assert dict(seen) == {"HOME": "/h"}
    with called_with({"TOKEN": "mine"}):
        assert dict(seen) == {"HOME": "/h", "TOKEN": "mine"}
        assert len(seen) == 2
        with called_with({}), pytest.raises(KeyError):
            seen["TOKEN"]
    with pytest.raises(KeyError):
        seen["TOKEN"]


@pytest.mark.parametrize("given", [None, [], {"HOME": "/x"}, {"TOKEN": 1}, {"TOKEN": "a\0b"}, {"TOKEN": "x" * 10**6}])
def test_what_is_not_a_listed_variable_is_left_out(given):
    assert checked(given, NAMES) == {}


def test_what_a_caller_brings_is_what_the_configuration_names(load_text):
    text = """{agents: {entries: {ops: {
        sandbox: {network: {allow: ["a.example:80"], inject: [{host: "a.example", header: "X", valueFrom: {env: "KEY"}}]}},
        tools: {elevated: {passEnv: ["TOKEN"]}}}}}}"""
    assert brought(load_text("{}")) == {"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS"}
    assert {"KEY", "TOKEN"} <= brought(load_text(text))
