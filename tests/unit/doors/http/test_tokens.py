"""Tokens: private, shown once, rotated at once, and each for what it says."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest

from crabpot.doors.http.access.principals import Principal, Role
from crabpot.doors.http.access.tokens import FILE_NAME, OPERATORS, TokenError, Tokens


@pytest.fixture
def tokens(tmp_path):
    return Tokens(str(tmp_path / "state"))


def file_of(tokens):
    return os.path.join(tokens._state, FILE_NAME)


def test_a_secret_gives_its_principal_and_anything_else_gives_nobody(tokens):
    secret = tokens.add("bot", Role.AGENT, sessions=("agent:ops:*",), sender="telegram:7", elicits=True)
    assert tokens.find(secret) == Principal(
        name="bot", role=Role.AGENT, sessions=("agent:ops:*",), sender="telegram:7", elicits=True
    )
    for wrong in ("", secret[:-1], secret + "x", secret.upper(), "é", "\udcff"):
        assert tokens.find(wrong) is None


def test_the_file_is_private_and_holds_no_secret(tokens):
    secret = tokens.add("operator", Role.OPERATOR)
    for name in (FILE_NAME, OPERATORS):
        assert stat.S_IMODE(os.stat(os.path.join(tokens._state, name)).st_mode) == 0o600
    with open(file_of(tokens), encoding="utf-8") as stream:
        assert secret not in stream.read()
    with open(os.path.join(tokens._state, OPERATORS), encoding="utf-8") as stream:
        assert stream.read().strip() == secret


def test_rotation_and_removal_count_at_once_also_for_another_process(tokens):
    other = Tokens(tokens._state)
    first = tokens.add("bot", Role.AGENT, sessions=("main",))
    assert other.find(first)
    second = tokens.rotate("bot")
    assert other.find(first) is None
    assert other.find(second).sessions == ("main",)
    tokens.remove("bot")
    assert other.find(second) is None


def test_the_operators_token_is_made_once_and_found_in_a_file(tokens):
    path = tokens.need_operator()
    with open(path, encoding="utf-8") as stream:
        before = stream.read()
    tokens.need_operator()
    with open(path, encoding="utf-8") as stream:
        assert stream.read() == before
    tokens.rotate("operator")
    with open(path, encoding="utf-8") as stream:
        assert tokens.find(stream.read().strip()).operates


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o606])
def test_a_file_that_others_can_reach_lets_nobody_in(tokens, mode):
    secret = tokens.add("bot", Role.AGENT, sessions=("main",))
    os.chmod(file_of(tokens), mode)
    with pytest.raises(TokenError, match="chmod 600"):
        Tokens(tokens._state).find(secret)


def test_a_link_in_the_place_of_the_file_is_not_followed(tokens, tmp_path):
    tokens.add("bot", Role.AGENT, sessions=("main",))
    os.rename(file_of(tokens), tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", file_of(tokens))
    with pytest.raises(TokenError, match="symbolic"):
        Tokens(tokens._state).find("x")


def test_a_broken_file_is_told_and_lets_nobody_in(tokens):
    tokens.add("bot", Role.AGENT, sessions=("main",))
    for text in ("", "[1]", '{"a": 1}', '[{"name": "x"}]'):
        with open(file_of(tokens), "w", encoding="utf-8") as stream:
            stream.write(text)
        with pytest.raises(TokenError, match="is damaged"):
            tokens.find("x")


def test_what_makes_no_sense_is_refused(tokens):
    tokens.add("bot", Role.AGENT, sessions=("main",))
    with pytest.raises(TokenError, match="already"):
        tokens.add("bot", Role.AGENT, sessions=("main",))
    with pytest.raises(TokenError, match="sessions"):
        tokens.add("other", Role.AGENT)
    with pytest.raises(TokenError, match="sessions"):
        tokens.add("other", Role.OPERATOR, sessions=("main",))
    with pytest.raises(TokenError, match="name"):
        tokens.add("../x", Role.OPERATOR)
    with pytest.raises(TokenError, match="there are: bot"):
        tokens.rotate("bott")


def test_many_at_once_lose_none(tokens):
    adding = [threading.Thread(target=Tokens(tokens._state).add, args=(f"t{n}", Role.OBSERVER)) for n in range(20)]
    for one in adding:
        one.start()
    for one in adding:
        one.join(timeout=20)
    assert {token.name for token in tokens.listed()} == {f"t{n}" for n in range(20)}


def test_an_agent_has_the_sessions_that_its_token_names():
    agent = Principal(name="a", role=Role.AGENT, sessions=("agent:ops:*", "main"))
    assert agent.may_use("agent:ops:telegram:1")
    assert agent.may_use("main")
    assert not agent.may_use("agent:opsx:1")
    assert not agent.may_use("agent:main:main")
    assert not agent.may_use("x\nagent:ops:1")
    assert not Principal(name="o", role=Role.OBSERVER).may_use("main")
    assert Principal(name="o", role=Role.OPERATOR).may_use("anything")
    assert agent.only_session() is None
    assert Principal(name="a", role=Role.AGENT, sessions=("agent:ops:*",)).only_session() is None
    assert Principal(name="a", role=Role.AGENT, sessions=("agent:ops:x",)).only_session() == "agent:ops:x"


@pytest.mark.parametrize(
    ("pattern", "key", "covered"),
    [
        ("*", "agent:main:main", True),
        ("*", "anything", True),
        ("agent:ops:*", "agent:ops:1", True),
        ("agent:ops:*", "agent:OPS:1", True),
        ("agent:OPS:*", "agent:ops:1", True),
        ("agent:ops:*", "agent:opsx:1", False),
        ("agent:ops:1", "agent:ops:1", True),
        ("agent:ops:1", "agent:ops:1:2", False),
        ("agent:ops:t:*", "agent:ops:t:7", True),
        ("agent:*", "agent:ops:1", True),
        ("agent:*:main", "agent:ops:main", True),
        # As text these would cross from the agent's id into what anybody may choose.
        ("agent:*:main", "agent:ops:x:main", False),
        ("agent:*-bot:x", "agent:main:my-bot:x", False),
        ("agent:*-bot:x", "agent:my-bot:x", True),
        ("agent:*", "main", False),
        ("a*", "agent:main:main", False),
        ("*:main", "agent:main:main", False),
        ("telegram:*", "telegram:7", True),
        ("main", "main", True),
        ("main", "agent:main:main", False),
    ],
)
def test_a_pattern_is_for_the_agent_that_a_key_was_read_to_name(pattern, key, covered):
    assert Principal(name="bot", role=Role.AGENT, sessions=(pattern,)).may_use(key) is covered


@pytest.mark.parametrize("pattern", ["", "agent:", "agent:ops", "agent:ops:", "agent::x", "agent:o s:*", "agent:*:"])
def test_a_pattern_that_is_for_no_session_makes_no_token(tokens, pattern):
    with pytest.raises(TokenError, match="matches nothing"):
        tokens.add("bot", Role.AGENT, sessions=(pattern,))
    assert tokens.listed() == []


def test_the_host_is_given_to_agents_by_name_and_never_by_an_older_file(tokens):
    given = tokens.add("trusted", Role.AGENT, sessions=("*",), allow_host=True)
    assert tokens.find(given).host_allowed
    secret = tokens.add("bot", Role.AGENT, sessions=("*",))
    assert not tokens.find(secret).host_allowed
    with open(file_of(tokens), encoding="utf-8") as stream:
        older = [{name: value for name, value in one.items() if name != "allow_host"} for one in json.load(stream)]
    with open(file_of(tokens), "w", encoding="utf-8") as stream:
        json.dump(older, stream)
    assert not Tokens(tokens._state).find(given).host_allowed
    for role in (Role.OPERATOR, Role.OBSERVER):
        with pytest.raises(TokenError, match="--allow-host"):
            tokens.add("other", role, allow_host=True)
