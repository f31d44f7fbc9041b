"""The names are data: groups, profiles and aliases as the contract lists them."""

from __future__ import annotations

from crabpot.decide.tools import ALIASES, BUILT_IN, GROUPS, IMPLIED_DENIALS, PROFILES, TOOLS


def test_groups_hold_the_tools_of_the_contract() -> None:
    assert {name: " ".join(tools) for name, tools in GROUPS.items()} == {
        "group:fs": "read write edit apply_patch grep glob ls",
        "group:runtime": "exec process",
        "group:automation": "cron gateway sessions_spawn sessions_send",
        "group:browser": "browser",
        "group:network": "web_fetch web_search",
        "group:media": "image tts",
        "group:messaging": "message",
    }


def test_profiles_hold_the_rules_of_the_contract() -> None:
    assert {name: " ".join(rules) for name, rules in PROFILES.items()} == {
        "full": "*",
        "coding": "group:fs group:runtime browser",
        "messaging": "message web_search web_fetch",
        "minimal": "web_search",
    }


def test_no_tool_is_in_two_groups() -> None:
    assert len(TOOLS) == len(set(TOOLS)) == sum(map(len, GROUPS.values()))


def test_crabpot_itself_runs_files_and_runtime_and_nothing_else() -> None:
    assert set(BUILT_IN) == {*GROUPS["group:fs"], *GROUPS["group:runtime"]}


def test_aliases_and_implied_denials_lead_to_tools_that_exist() -> None:
    assert ALIASES == {"bash": "exec", "apply-patch": "apply_patch"}
    assert IMPLIED_DENIALS == {"write": ("apply_patch",)}
    assert {*ALIASES.values(), *IMPLIED_DENIALS} <= set(TOOLS)
