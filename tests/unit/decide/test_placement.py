"""Where a session runs, what shares its sandbox, and the sandbox's name."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.decide.placement import decide, scope_key
from crabpot.decide.sessions import names_a_session, parse
from crabpot.model import Place
from crabpot.settings import AgentSettings, Mode, Sandbox, Scope
from crabpot.spec.naming import sandbox_name

GROUP = "agent:main:telegram:group:-100123"


def agent(mode: Mode = "all", scope: Scope = "session") -> AgentSettings:
    return AgentSettings(id="main", sandbox=Sandbox(mode=mode, scope=scope), sources={"sandbox.mode": "written.here"})


PLACES: list[tuple[Mode, str, Place, str]] = [
    ("off", "agent:main:main", Place.HOST, "sandbox mode is off"),
    ("off", GROUP, Place.HOST, "sandbox mode is off"),
    ("non-main", "agent:main:main", Place.HOST, "main session exempted"),
    ("non-main", "main", Place.HOST, "main session exempted"),
    ("non-main", "agent:ops:main", Place.HOST, "main session exempted"),
    ("non-main", GROUP, Place.SANDBOX, "not the main session"),
    ("non-main", "agent:main:main\n", Place.SANDBOX, "not the main session"),
    ("non-main", "Agent:main:main", Place.SANDBOX, "not the main session"),
    ("non-main", "anything", Place.SANDBOX, "not the main session"),
    ("all", "agent:main:main", Place.SANDBOX, "every session is sandboxed"),
    ("all", GROUP, Place.SANDBOX, "every session is sandboxed"),
]


@pytest.mark.parametrize(("mode", "key", "where", "because"), PLACES)
def test_the_mode_decides(mode: Mode, key: str, where: Place, because: str) -> None:
    verdict = decide(parse(key), agent(mode))
    assert (verdict.answer.where, verdict.because, verdict.source) == (where, because, "written.here")
    assert (verdict.answer.scope_key is None) == (where is Place.HOST)


@given(key=st.text(min_size=1).filter(names_a_session), mode=st.sampled_from(["non-main", "all"]))
def test_nothing_but_a_main_session_under_non_main_is_on_the_host(key: str, mode: Mode) -> None:
    session = parse(key)
    verdict = decide(session, agent(mode))
    assert (verdict.answer.where is Place.HOST) == (mode == "non-main" and session.main)


SCOPES: list[tuple[Scope, str, str]] = [
    ("session", GROUP, GROUP),
    ("session", "agent:main:main", "agent:main:main"),
    ("session", "agent:OPS:main", "agent:OPS:main"),
    ("session", "main", "main"),
    ("session", "shared", "session:shared"),
    ("session", "session:shared", "session:session:shared"),
    ("session", "session:", "session:session:"),
    ("agent", GROUP, "agent:main"),
    ("agent", "agent:OPS:x", "agent:ops"),
    ("shared", GROUP, "shared"),
    ("shared", "agent:ops:x", "shared"),
]


@pytest.mark.parametrize(("scope", "key", "expected"), SCOPES)
def test_the_scope_says_what_shares_a_sandbox(scope: Scope, key: str, expected: str) -> None:
    assert scope_key(parse(key), agent(scope=scope)) == expected


TRICKY = st.builds(
    "".join,
    st.lists(
        st.sampled_from(["agent:", "session:", "shared", "ops", ":", "main", "x", "\n", "A"]), min_size=1, max_size=5
    ),
)


KEYS = (TRICKY | st.text(min_size=1)).filter(names_a_session)


@given(one=KEYS, other=KEYS)
def test_no_session_finds_the_sandbox_of_another_scope_or_session(one: str, other: str) -> None:
    mine = scope_key(parse(one), agent(scope="session"))
    assert mine != scope_key(parse(other), agent(scope="shared"))
    assert mine != scope_key(parse(other), agent(scope="agent"))
    assert (mine == scope_key(parse(other), agent(scope="session"))) == (one == other)


def _to_the_letter(key: str) -> str:
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    allowed = "abcdefghijklmnopqrstuvwxyz0123456789._-"
    return "crabpot-" + "".join(char if char in allowed else "-" for char in key[:32]) + "-" + digest


NAMES = [
    ("shared", "crabpot-shared-a4d26868"),
    ("agent:main", "crabpot-agent-main-f331f052"),
    ("agent:main:main", "crabpot-agent-main-main-6d9217fe"),
    (GROUP, "crabpot-agent-main-telegram-group--10012-ae91b72a"),
]


@pytest.mark.parametrize(("key", "name"), NAMES)
def test_a_name_is_as_the_contract_says(key: str, name: str) -> None:
    assert sandbox_name(key) == name


@given(st.text(min_size=1, max_size=80))
def test_a_name_is_safe_as_a_file_and_container_name(key: str) -> None:
    name = sandbox_name(key)
    assert name == _to_the_letter(key)
    assert re.fullmatch(r"crabpot-[a-z0-9._-]{1,32}-[0-9a-f]{8}", name)


def test_keys_that_differ_only_after_the_shown_part_have_different_names() -> None:
    keys = ["a" * 32 + tail for tail in ("", "b", "c", "B")] + ["A" * 32, "-" * 32]
    assert len({sandbox_name(key) for key in keys}) == len(keys)


def test_a_key_of_bytes_that_are_no_text_has_a_name_too() -> None:
    assert sandbox_name("\udcff") != sandbox_name("\udcfe")
