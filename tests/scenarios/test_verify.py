"""`verify`: what a session would get is attacked; the exit code, and the reports that a person or a machine reads."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest

QUICK = ("--only", "privileges", "cannot_read_a_file*")


@pytest.fixture
def sandboxed(crabpot: Any) -> Any:
    made = crabpot("exec", "--", "true")
    if made.code != 0:
        pytest.skip(made.err)
    return crabpot


def test_every_claim_is_shown_with_its_state_and_the_run_is_counted(sandboxed: Any) -> None:
    ended = sandboxed("verify", *QUICK)
    lines = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert "\x1b" not in ended.out
    assert lines[0].startswith("Attacking a sandbox as agent:main:main gets it, on ")
    assert any(line.startswith("  held      holds no capability ") for line in lines)
    assert lines[-1].startswith("no claim failed: ")


def test_claims_may_be_named_together_or_one_by_one(sandboxed: Any) -> None:
    ended = sandboxed("verify", "--json", "--only", "is_not_root", "--only", "holds_no_capability")
    assert ended.code == 0
    assert {found["claim"] for found in ended.json["findings"]} == {"is_not_root", "holds_no_capability"}


def test_the_json_has_what_was_tried_and_what_came_back(sandboxed: Any) -> None:
    ended = sandboxed("verify", "--json", "--only", "is_not_root")
    (found,) = ended.json["findings"]
    assert ended.code == 0
    assert (found["claim"], found["state"], found["group"]) == ("is_not_root", "held", "privileges")
    assert found["tried"]
    assert found["came_back"]
    assert ended.json["claims"]["held"] == 1
    assert len(ended.json["digest"]) == len(ended.json["hash_of_spec"]) == 64


def test_the_reports_are_whole_and_hold_no_script(sandboxed: Any, tmp_path: Any) -> None:
    page, xml = tmp_path / "page.html", tmp_path / "junit.xml"
    assert sandboxed("verify", "--html", str(page), "--junit", str(xml), *QUICK).code == 0
    text = page.read_text(encoding="utf-8")
    assert "holds no capability" in text
    assert "<script" not in text
    assert "default-src 'none'" in text
    suites = ET.parse(xml).getroot()
    groups = {"privileges", "filesystem", "escape by tool arguments", "MCP servers"}
    assert {suite.get("name") for suite in suites} == groups
    assert not suites.findall(".//failure")


def test_a_shim_of_git_does_not_stop_the_attacks_on_git(sandboxed: Any) -> None:
    sandboxed.configure('{agents: {defaults: {sandbox: {hostCommands: ["git"]}}}}')
    ended = sandboxed("verify", "--only", "cannot_push_what_attacks_a_git_folder")
    assert (ended.code, ended.out.splitlines()[-1][:15]) == (0, "no claim failed"), ended.out


def test_a_session_under_review_has_its_host_commands_attacked_too(sandboxed: Any) -> None:
    sandboxed.configure('{agents: {defaults: {sandbox: {workspace: "review"}}}}')
    ended = sandboxed("verify", "--json", "--only", "cannot_write_beyond_its_folder*", "cannot_have_another_build*")
    assert [one["state"] for one in ended.json["findings"]] == ["held", "held"]


def test_a_session_under_review_whose_layer_was_flooded_is_attacked_to_the_end(sandboxed: Any) -> None:
    sandboxed.configure('{agents: {defaults: {sandbox: {workspace: "review"}}}}')
    ended = sandboxed("verify", "--json", "--only", "cannot_fill_the_disk", "cannot_run_longer*", "harms_only_itself*")
    found = {one["claim"]: one for one in ended.json["findings"]}
    flooded = found.pop("cannot_fill_the_disk")
    # The layer is looked at once a second: a fast disk takes the whole flood in between, and the clause says so.
    assert flooded["state"] in ("held", "degraded"), ended.out
    assert "; 0 MiB were there" not in flooded["came_back"], "what was written lies in the layer"
    assert [one["state"] for one in found.values()] == ["held", "held"], ended.out


def test_the_run_is_in_the_audit_log_and_its_calls_are_not(sandboxed: Any) -> None:
    sandboxed("verify", *QUICK)
    records = [json.loads(line) for line in sandboxed("audit", "tail", "-n", "100", "--json").out.splitlines()]
    assert [record["session"] for record in records if record["kind"] == "verify"] == ["agent:main:main"]
    assert {record.get("session") for record in records} <= {None, "agent:main:main"}
    assert "verify agent:main:main on " in sandboxed("audit", "tail").out
    told = {line["name"]: line for line in sandboxed("doctor", "--json").json}
    assert "never" in told["last verify"]["says"], "a part of the claims is no verification"


def test_the_agents_own_workspace_is_not_touched(sandboxed: Any) -> None:
    workspace = sandboxed.home / "agent"
    workspace.mkdir()
    (workspace / "mine.txt").write_text("mine", encoding="ascii")
    owner = workspace.stat()
    sandboxed.configure("{agents: {defaults: {sandbox: {workspace: 'rw'}}}}")
    ended = sandboxed("verify", "--only", "filesystem")
    if owner.st_uid == 0:
        assert ended.code == 1
        assert "belongs to root" in ended.err
    else:
        assert ended.code == 0
    assert [path.name for path in workspace.iterdir()] == ["mine.txt"]


def test_a_session_on_the_host_has_no_walls_to_attack(crabpot: Any) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {mode: 'off'}}}}")
    ended = crabpot("verify")
    assert ended.code == 2
    assert "runs on the host" in ended.said()
    assert "agents.defaults.sandbox.mode" in ended.err


def test_a_claim_that_is_none_is_a_mistake_of_the_command_line(crabpot: Any) -> None:
    ended = crabpot("verify", "--only", "is_not_rot")
    assert ended.code == 2
    assert 'did you mean "is_not_root"' in ended.said()


def test_without_a_sandbox_there_is_nothing_to_attack_and_that_is_a_failure(crabpot: Any) -> None:
    ended = crabpot("verify", "--backend", "docker", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert ended.code == 1
    assert "there is no sandbox to attack" in ended.said()


def test_what_the_network_gives_away_is_told_and_not_claimed(sandboxed: Any) -> None:
    sandboxed.configure("{agents: {defaults: {sandbox: {network: 'host'}}}}")
    ended = sandboxed("verify", "--json", "--only", "network", "shares_no*")
    states = {found["claim"]: found["state"] for found in ended.json["findings"]}
    assert ended.code == 0
    assert states["has_no_way_to_the_world"] == states["cannot_be_heard_on_the_host"] == "open"
    assert states["shares_no_namespace_with_the_host"] == states["cannot_reach_a_socket_file_of_the_host"] == "held"


def test_explain_shows_the_live_facts_and_the_log_has_their_digest(sandboxed: Any) -> None:
    (answer,) = [sandboxed("explain", "--live", "--json", "--session", "agent:main:main").json]
    facts = {(fact["clause"], fact["what"]): fact["state"] for fact in answer["live"]["facts"]}
    assert facts["seccomp", "Seccomp"] == facts["network", "interfaces"] == "enforced"
    assert "violated" not in facts.values()
    records = [json.loads(line) for line in sandboxed("audit", "tail", "-n", "100", "--json").out.splitlines()]
    assert {record["facts"] for record in records if record["kind"] == "open"} == {answer["live"]["digest"]}
    assert 'Live facts of "agent:main:main"' in sandboxed("explain", "--live").out


def test_a_session_on_the_host_has_no_facts(crabpot: Any) -> None:
    crabpot.configure("{agents: {defaults: {sandbox: {mode: 'off'}}}}")
    ended = crabpot("explain", "--live", "--json")
    assert ended.code == 0
    assert ended.json["live"] == {"error": "this session runs on the host, where nothing is promised"}
