"""What holds for every list of rules: a deny never widens, an allow never removes, order means nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import assume, given
from hypothesis import strategies as st

from crabpot.decide.policy import canonical, covered, decide, effective
from crabpot.decide.tools import ALIASES, GROUPS, PROFILES, TOOLS

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.settings import AgentSettings

EXTRA = ("weather", "pager")
PROBED = (*TOOLS, *EXTRA, "github__push", "jira__read", "EXEC", " bash ", "Weather")

globs = st.lists(st.text("exceardwbs_", max_size=2), min_size=2, max_size=3).map("*".join)
names = st.sampled_from((*TOOLS, *EXTRA, *GROUPS, *ALIASES, "github__push", "*__*"))
spelt = st.builds(
    lambda name, style: style(name), names | globs, st.sampled_from([str, str.upper, str.title, " {} ".format])
)
rules = st.lists(spelt, max_size=4)
profiles = st.sampled_from((None, *PROFILES))
# Where a tool may be denied or allowed: in the file's own layer or in the agent's, for all or for sandboxed sessions.
deny_places = st.sampled_from(["tools.deny", "agent.deny", "tools.sandbox.deny", "agent.sandbox.deny"])


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    written: dict[str, Any] = {"tools": {"extra": list(EXTRA)}, "agent": {}}
    for layer in ("tools", "agent"):
        for key in ("deny", "sandbox.deny"):
            _put(written, f"{layer}.{key}", draw(rules))
        for key in ("allow", "sandbox.allow"):
            if made := draw(rules):
                _put(written, f"{layer}.{key}", made)
        if profile := draw(profiles):
            written[layer]["profile"] = profile
    return written


def _put(written: dict[str, Any], path: str, value: Any) -> None:
    layer, *between, key = path.split(".")
    at = written[layer]
    for step in between:
        at = at.setdefault(step, {})
    at[key] = value


def _get(written: dict[str, Any], path: str) -> Any:
    at: Any = written
    for step in path.split("."):
        at = at.get(step, {}) if isinstance(at, dict) else {}
    return at or None


def changed(written: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    made = json.loads(json.dumps(written))
    _put(made, path, value)
    return made


def granted(written: dict[str, Any], agent_of: Callable[..., AgentSettings]) -> dict[bool, set[str]]:
    """Return the tools that the agent may use, on the host and in a sandbox."""
    text = json.dumps({"tools": written["tools"], "agents": {"entries": {"ops": {"tools": written["agent"]}}}})
    agent = agent_of(text, "ops")
    return {
        sandboxed: {name for name in PROBED if decide(name, agent, sandboxed=sandboxed).answer}
        for sandboxed in (False, True)
    }


def narrower(left: dict[bool, set[str]], right: dict[bool, set[str]]) -> bool:
    return all(left[place] <= right[place] for place in (False, True))


@given(written=policies(), path=deny_places, rule=spelt, data=st.data())
def test_adding_a_deny_never_widens(
    written: dict[str, Any], path: str, rule: str, data: st.DataObject, agent_of: Callable[..., AgentSettings]
) -> None:
    before = _get(written, path) or []
    at = data.draw(st.integers(0, len(before)))
    more = changed(written, path, [*before[:at], rule, *before[at:]])
    assert narrower(granted(more, agent_of), granted(written, agent_of))


@given(written=policies(), layer=st.sampled_from(["tools", "agent"]), rule=spelt, data=st.data())
def test_adding_an_allow_beside_a_profile_or_another_allow_never_removes(
    written: dict[str, Any], layer: str, rule: str, data: st.DataObject, agent_of: Callable[..., AgentSettings]
) -> None:
    assume(any(_get(written, f"{each}.{key}") for each in ("tools", "agent") for key in ("allow", "profile")))
    before = _get(written, f"{layer}.allow") or []
    at = data.draw(st.integers(0, len(before)))
    more = changed(written, f"{layer}.allow", [*before[:at], rule, *before[at:]])
    assert narrower(granted(written, agent_of), granted(more, agent_of))


@given(written=policies(), layer=st.sampled_from(["tools", "agent"]), rule=spelt)
def test_adding_to_the_sandboxs_own_allow_never_removes_and_never_reaches_past_the_rest(
    written: dict[str, Any], layer: str, rule: str, agent_of: Callable[..., AgentSettings]
) -> None:
    path = f"{layer}.sandbox.allow"
    assume(_get(written, "tools.sandbox.allow") or _get(written, "agent.sandbox.allow"))
    before, after = (
        granted(written, agent_of),
        granted(changed(written, path, [*(_get(written, path) or []), rule]), agent_of),
    )
    assert narrower(before, after)
    assert after[True] <= after[False]
    assert after[False] == before[False]


@given(written=policies(), data=st.data())
def test_the_order_of_a_list_means_nothing(
    written: dict[str, Any], data: st.DataObject, agent_of: Callable[..., AgentSettings]
) -> None:
    shuffled = written
    for layer in ("tools", "agent"):
        for key in ("allow", "deny", "sandbox.allow", "sandbox.deny"):
            if before := _get(written, f"{layer}.{key}"):
                shuffled = changed(shuffled, f"{layer}.{key}", data.draw(st.permutations(before)))
    assert granted(shuffled, agent_of) == granted(written, agent_of)


@given(written=policies())
def test_nothing_that_an_agent_writes_gives_back_what_the_file_denied(
    written: dict[str, Any], agent_of: Callable[..., AgentSettings]
) -> None:
    agent = agent_of(json.dumps({"tools": {"extra": list(EXTRA), "deny": written["tools"]["deny"]}}))
    denied = {name for name in PROBED if not decide(name, agent, sandboxed=False).answer}
    for place in (False, True):
        assert not granted(written, agent_of)[place] & denied


@given(written=policies())
def test_a_sandboxed_session_never_has_more_tools(
    written: dict[str, Any], agent_of: Callable[..., AgentSettings]
) -> None:
    both = granted(written, agent_of)
    assert both[True] <= both[False]


@given(written=policies())
def test_a_denied_name_is_denied_however_it_is_called(
    written: dict[str, Any], agent_of: Callable[..., AgentSettings]
) -> None:
    text = json.dumps({"tools": written["tools"], "agents": {"entries": {"ops": {"tools": written["agent"]}}}})
    agent = agent_of(text, "ops")
    for name in PROBED:
        same = {name, name.upper(), f"\t{name} ", canonical(name)}
        assert len({decide(each, agent, sandboxed=True).answer for each in same}) == 1


@given(written=policies())
def test_what_is_effective_is_what_is_decided(written: dict[str, Any], agent_of: Callable[..., AgentSettings]) -> None:
    text = json.dumps({"tools": written["tools"]})
    agent = agent_of(text)
    for sandboxed in (False, True):
        left = effective(agent, sandboxed=sandboxed)
        assert set(left) == {name for name in (*TOOLS, *EXTRA) if decide(name, agent, sandboxed=sandboxed).answer}


def _slow_match(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(_slow_match(pattern[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and pattern[0] == name[0] and _slow_match(pattern[1:], name[1:])


@given(pattern=st.text("exceardwbs_*.?[+", min_size=1, max_size=7))
def test_a_glob_matches_as_its_definition_says(pattern: str, agent_of: Callable[..., AgentSettings]) -> None:
    agent = agent_of("{}")
    assert set(covered(pattern, agent)) == {name for name in TOOLS if _slow_match(canonical(pattern), name)}
