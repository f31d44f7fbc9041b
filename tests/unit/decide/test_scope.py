"""Who is behind a sandbox, and what its calls are told."""

from __future__ import annotations

from crabpot.decide.scope import Scope
from crabpot.settings import AgentSettings


def test_the_session_is_the_one_that_calls_where_there_is_just_one():
    scope = Scope(key="agent:main", agent=AgentSettings(id="main"))
    assert scope.session == "agent:main"
    first = scope.begin("agent:main:a")
    scope.begin("agent:main:a")
    assert scope.session == "agent:main:a"
    other = scope.begin("agent:main:b")
    assert scope.session == "agent:main"
    scope.end(other)
    scope.end(first)
    assert scope.session == "agent:main:a"


def test_every_call_under_way_is_told_once_and_of_not_too_much():
    scope = Scope(key="k", agent=AgentSettings(id="main"))
    early = scope.begin("a")
    for number in range(20):
        scope.hint(f"hint {number % 7}")
    late = scope.begin("a")
    scope.hint("hint 0")
    assert early.hints == [f"hint {number}" for number in range(5)]
    assert late.hints == ["hint 0"]
