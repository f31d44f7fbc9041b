"""Whose a session key is, and whether it is that agent's main session. Keys are taken as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.decide.sessions import LONGEST, is_agent_id, parse
from crabpot.errors import SessionError

KEYS = [
    ("agent:main:main", "main", True),
    ("main", "main", True),
    ("agent:ops:main", "ops", True),
    ("agent:OPS:main", "ops", True),
    ("agent:a-b_9:main", "a-b_9", True),
    ("agent:9:main", "9", True),
    (f"agent:{'a' * 64}:main", "a" * 64, True),
    ("agent:main:telegram:group:-100123", "main", False),
    ("agent:ops:x", "ops", False),
    ("agent:ops:main:x", "ops", False),
    ("agent:ops:main:", "ops", False),
    ("agent:ops::main", "ops", False),
    ("agent:ops: main", "ops", False),
    ("agent:ops:\x00", "ops", False),
]

# Each begins as an agent's key and names none: it is nobody's, least of all the default agent's.
MALFORMED = [
    *("agent:main", "agent:main:", "agent::main", "agent:", "agent::", "agent:ops:", "agent:ops"),
    *("agent:-a:main", "agent:_a:main", "agent:a b:main", "agent:a.b:main", "agent:a/b:main", f"agent:{'a' * 65}:main"),
    *("agent:\u212a:main", "agent:ops\u212a:main", "agent:\u0130:main", "agent:\u00e9:main", "agent:op\u0455:main"),
    *(
        "agent:ops\n:main",
        "agent:\nops:main",
        "agent:ops\0:main",
        "agent:ops\r:main",
        "agent: ops:main",
        "agent:ops :main",
    ),
    "agent:main\u2236main",
]
# Each looks like a main session, or like another agent's, and is neither: the default agent's, and sandboxed.
NEVER_PARSED = [
    *("agent", ":main", "::", ":", " ", "\n", "\0"),
    *(
        "Main",
        "MAIN",
        "main ",
        " main",
        "main\n",
        "\tmain",
        "main\0",
        "ma\u0131n",
        "m\u0430in",
        "\uff4dain",
        "main\u200b",
    ),
    *("Agent:main:main", "AGENT:main:main", " agent:main:main", "agent :main:main", "agents:main:main"),
    *(
        "agent\uff1amain\uff1amain",
        "\ufeffagent:main:main",
        "\u202eagent:main:main",
        "agent;main;main",
    ),
]
NEVER_MAIN = [
    *("agent:main:main\n", "agent:main:main ", "agent:main:main\0", "agent:main:main\r", "agent:main:main\t"),
    *("agent:main:Main", "agent:main:MAIN", "agent:main:\u212aain", "agent:main:ma\nin", "agent:main:\nmain"),
    *(
        "agent:main:main\u200b",
        "agent:main:\u200bmain",
        "agent:main:main\u202e",
        "agent:main:m\u0430in",
        "agent:main:main\x7f",
    ),
]


@pytest.mark.parametrize(("key", "agent", "main"), KEYS)
def test_a_key_names_its_agent(key: str, agent: str, *, main: bool) -> None:
    session = parse(key)
    assert (session.key, session.agent, session.main) == (key, agent, main)


@pytest.mark.parametrize("key", NEVER_PARSED)
def test_a_key_that_does_not_parse_is_the_default_agents_and_not_main(key: str) -> None:
    session = parse(key, default_agent="fallback")
    assert (session.key, session.agent, session.main) == (key, "fallback", False)


@pytest.mark.parametrize("key", NEVER_MAIN)
def test_what_only_looks_like_a_main_session_is_not_one(key: str) -> None:
    session = parse(key)
    assert (session.key, session.agent, session.main) == (key, "main", False)


@pytest.mark.parametrize("key", MALFORMED)
def test_a_key_that_begins_as_an_agents_and_names_none_is_an_error(key: str) -> None:
    with pytest.raises(SessionError, match="agent:ID:NAME") as caught:
        parse(key)
    assert str(caught.value).isascii(), "what deceives the eye stands by its number"


def test_an_empty_key_is_an_error_that_says_what_to_give() -> None:
    with pytest.raises(SessionError, match="agent:main:main"):
        parse("")


def test_a_key_is_bounded_whichever_door_it_came_through() -> None:
    assert parse("x" * LONGEST).key == "x" * LONGEST
    with pytest.raises(SessionError, match="at most 4096 characters"):
        parse("agent:ops:" + "x" * LONGEST)


def test_main_alone_is_the_default_agents() -> None:
    assert parse("main", default_agent="ops").agent == "ops"


@given(st.text(min_size=1))
def test_only_two_spellings_are_ever_main(key: str) -> None:
    try:
        session = parse(key)
    except SessionError:
        assert key.startswith("agent:")
        return
    if session.main:
        head, _, rest = key.partition(":")
        assert key == "main" or (head == "agent" and rest.endswith(":main") and is_agent_id(rest[: -len(":main")]))


@given(st.text(max_size=70))
def test_an_id_is_lower_case_ascii_once_folded(text: str) -> None:
    if is_agent_id(text):
        assert text.isascii()
        assert is_agent_id(text.lower())
        assert len(text) <= 64
        assert text == text.strip()
