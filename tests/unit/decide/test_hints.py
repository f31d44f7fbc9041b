"""Hints for agents about commands that may run on the host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabpot.decide.hints import near_miss
from crabpot.settings import AgentSettings, Elevated, Tools


def agent(*patterns, shims=()):
    made = AgentSettings(id="main")
    elevated = Elevated(enabled=True, patterns=patterns)
    return replace(made, sandbox=replace(made.sandbox, host_commands=shims), tools=Tools(elevated=elevated))


@pytest.mark.parametrize(
    "command", ["git add . && git push origin main", "git push origin main | cat", "cd x; git push"]
)
def test_a_part_that_could_have_left_alone_is_named(command):
    told = near_miss({"command": command}, agent("git push *"), sender=None)
    assert told is not None
    assert told.startswith("`git push")
    assert 'pattern "git push *"' in told


@pytest.mark.parametrize("command", ["git add .", "echo 'a && git push'", "", None, 7])
def test_nothing_is_said_of_what_could_not_leave(command):
    assert near_miss({"command": command}, agent("git push *"), sender=None) is None


@pytest.mark.parametrize("more", [{"stdin": ""}, {"env": {}}, {"tty": True}, {"command": ["git", "push", "x"]}])
def test_a_command_that_stayed_only_for_what_came_with_it_is_named(more):
    assert near_miss({"command": "git push x", **more}, agent("git push *"), sender=None) is not None


def test_a_command_that_was_decided_as_it_is_is_not_decided_again():
    """Whatever the rules: that it stayed inside is the decision on all of it."""
    assert near_miss({"command": "git push x", "env": None, "tty": False}, agent("git push *"), sender=None) is None


def test_a_command_that_a_shim_took_to_the_host_did_not_stay():
    settings = agent("make *", shims=("tool",))
    assert near_miss({"command": "cd sub && tool 'a b'"}, settings, sender=None) is None
    assert near_miss({"command": "tool x && make all"}, settings, sender=None) is not None
