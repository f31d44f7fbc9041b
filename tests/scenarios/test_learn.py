"""`crabpot learn`: a configuration under which the same session runs again, and a hostile one is refused."""

from __future__ import annotations

import pytest

CONFIG = """{
  // kept
  agents: { defaults: { sandbox: { network: "none" } } },
  tools: { elevated: { enabled: true, patterns: ["echo *"], requireApproval: false } },
}
"""


@pytest.fixture
def learned(crabpot):
    crabpot.configure(CONFIG)
    assert crabpot("exec", "--", "id -u").code == 0
    assert crabpot("exec", "--", "echo", "out").out == "out\n"
    return crabpot


def test_a_learned_configuration_runs_the_session_again_and_refuses_more(learned):
    told = learned("learn", "--write")
    assert told.code == 0
    assert 'agents.entries.main.tools.allow: ["exec"]' in told.out
    assert 'agents.entries.main.tools.elevated.patterns: ["echo out"]' in told.out
    assert "3 values set" not in told.err
    assert "2 values set" in told.err
    text = learned.usual_file.read_text()
    assert "// kept" in text
    assert learned("check").code == 0
    assert learned("exec", "--", "id -u").code == 0
    assert learned("call", "exec", "--args", '{"command": "echo out"}').json["place"] == "host"
    assert learned("call", "exec", "--args", '{"command": "echo other"}').json["place"] == "sandbox"
    assert learned("call", "read", "--args", '{"path": "x"}').code == 126


def test_a_lesson_is_json_for_programs_and_changes_nothing_unasked(learned):
    lesson = learned("learn", "--json").json
    assert (lesson["session"], lesson["calls"], lesson["suspicious"]) == ("agent:main:main", 2, False)
    assert learned.usual_file.read_text() == CONFIG


def test_a_refused_session_is_marked_and_the_change_is_left_to_a_person(learned):
    learned("exec", "--timeout", "1", "--", "sleep 30")
    told = learned("learn").out
    assert "may have been hostile" in told
    assert "to allow it: crabpot config set agents.entries.main.sandbox.limits.timeLimit VALUE" in told


def test_a_session_that_never_was_teaches_nothing(learned):
    ended = learned("learn", "--session", "agent:main:other")
    assert ended.code == 1
    assert "the audit log has no call of agent:main:other" in ended.said()
