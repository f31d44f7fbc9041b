"""`crabpot doctor`: the machine, and what would mend it."""

from __future__ import annotations

import os


def test_the_machine_is_examined_line_by_line(crabpot):
    ended = crabpot("doctor")
    assert ended.code == 0
    for area in ("kernel", "bubblewrap", "docker", "crabpot"):
        assert f"\n{area}\n" in f"\n{ended.out}"
    assert "bubblewrap is what a session gets" in ended.out
    assert ", 0 problems" in ended.out


def test_it_recommends_what_explain_says_that_auto_chooses(crabpot):
    lines = {line["name"]: line for line in crabpot("doctor", "--json").json}
    chosen = crabpot("explain", "--json", "--session", "agent:main:x").json["sandbox"]
    assert lines["backend"]["says"].startswith(f"{chosen['backend']} is what a session gets")
    weak = [clause["name"] for clause in chosen["clauses"] if clause["state"] != "enforced"]
    assert all(name in lines["backend"]["says"] for name in weak)


def test_every_line_has_a_state_and_every_fault_a_fix(crabpot):
    lines = crabpot("doctor", "--json").json
    assert len(lines) > 12
    for line in lines:
        assert set(line) == {"area", "name", "state", "says", "fix"}
        assert line["state"] in ("ok", "warning", "problem")
        assert (line["fix"] is not None) == (line["state"] != "ok")


def test_a_configuration_that_does_not_load_is_a_problem_and_not_the_end(crabpot):
    crabpot.configure("{agents: {defaults: {sandbox: {mod: 'all'}}}}")
    ended = crabpot("doctor", "--json")
    assert ended.code == 1
    (line,) = [line for line in ended.json if line["name"] == "backend"]
    assert line["state"] == "problem"
    assert 'did you mean "mode"' in line["fix"]


def test_a_session_on_the_host_is_warned_about(crabpot):
    crabpot.configure("{agents: {defaults: {sandbox: {mode: 'off'}}}}")
    (line,) = [line for line in crabpot("doctor", "--json").json if line["name"] == "backend"]
    assert line["state"] == "warning"


def test_a_configuration_that_others_can_write_is_a_problem(crabpot):
    file = crabpot.configure("{}")
    os.chmod(file, 0o666)
    ended = crabpot("doctor")
    assert ended.code == 1
    assert f"chmod go-w {file}" in ended.out


def test_an_engine_that_is_needed_and_away_is_a_problem(crabpot, tmp_path):
    crabpot.configure("{agents: {defaults: {sandbox: {backend: 'docker'}}}}")
    ended = crabpot("doctor", "--json", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert ended.code == 1
    states = {line["name"]: line["state"] for line in ended.json if line["name"] in ("engine", "backend")}
    assert states == {"engine": "problem", "backend": "problem"}
