"""Whose a call is, where it runs and whether its tool is allowed: by the settings alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crabpot.decide import verdicts
from crabpot.errors import SessionError
from crabpot.model import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import Settings

CONFIG = """{
  agents: { defaults: { sandbox: { mode: "non-main" } }, list: [{ id: "ops", tools: { deny: ["exec"] } }] },
  tools: { extra: ["greet"] },
}"""


@pytest.mark.parametrize(
    ("session", "tool", "expected"),
    [
        ("agent:main:x", "exec", ("main", Place.SANDBOX, True)),
        ("agent:main:main", "exec", ("main", Place.HOST, True)),
        ("agent:ops:x", "exec", ("ops", Place.SANDBOX, False)),
        ("agent:ops:x", "read", ("ops", Place.SANDBOX, True)),
        ("agent:main:x", "greet", ("main", Place.HOST, True)),
        ("agent:main:x", "unheard", ("main", Place.HOST, False)),
        ("agent:main:x", "", ("main", Place.SANDBOX, False)),
    ],
)
def test_one_decision_says_who_where_and_whether(
    load_text: Callable[..., Settings], session: str, tool: str, expected: tuple[str, Place, bool]
) -> None:
    found = verdicts.decide(verdicts.Rules(load_text(CONFIG)), session, tool, host_allowed=True)
    assert (found.agent.id, found.placed.answer.where, found.allowed.answer) == expected


def test_a_caller_that_must_not_touch_the_host_is_denied_what_would_run_there(
    load_text: Callable[..., Settings],
) -> None:
    rules = verdicts.Rules(load_text(CONFIG))
    assert not verdicts.decide(rules, "agent:main:main", "exec", host_allowed=False).allowed.answer
    assert verdicts.decide(rules, "agent:main:x", "exec", host_allowed=False).allowed.answer


def test_a_key_that_names_no_session_is_refused(load_text: Callable[..., Settings]) -> None:
    with pytest.raises(SessionError):
        verdicts.decide(verdicts.Rules(load_text(CONFIG)), "agent::x", "exec", host_allowed=True)


def test_what_was_decided_for_one_agent_or_place_is_not_said_of_another(load_text: Callable[..., Settings]) -> None:
    text = """{
      agents: { defaults: { sandbox: { mode: "non-main" } }, entries: { ops: { tools: { deny: ["write"] } } } },
      tools: { sandbox: { deny: ["exec"] } },
    }"""
    asked = [
        (f"agent:{a}:{s}", tool) for tool in ("exec", "write") for a in ("main", "ops") for s in ("main", "x", "y")
    ]
    for calls in (asked, asked[::-1]):
        rules = verdicts.Rules(load_text(text))
        found = {call: verdicts.decide(rules, *call, host_allowed=True).allowed.answer for call in calls}
        assert {call for call, allowed in found.items() if not allowed} == {
            *((f"agent:{agent}:{name}", "exec") for agent in ("main", "ops") for name in ("x", "y")),
            *((f"agent:ops:{name}", "write") for name in ("main", "x", "y")),
        }
