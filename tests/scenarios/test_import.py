"""`crabpot import openclaw FILE`: configurations as people have them become ones of ours that load and mean the same."""

from __future__ import annotations

from pathlib import Path

import pytest

FILES = Path(__file__).parent / "openclaw"


@pytest.fixture
def imported(crabpot, tmp_path):
    """Import a file, and make what came of it the configuration."""

    def start(name):
        ended = crabpot("import", "openclaw", str(FILES / f"{name}.json"))
        assert ended.code == 0, ended.err
        assert all(line.startswith("crabpot: note: left out ") for line in ended.err.splitlines())
        for workspace in ("clawd", "clawd-family", ".openclaw/workspace", "agent"):
            (crabpot.home / workspace).mkdir(parents=True, exist_ok=True)
        crabpot.configure(ended.out)
        return ended

    return start


def explained(crabpot, session, *more):
    return crabpot("explain", "--json", "--session", session, *more).json


def test_one_person_keeps_main_on_the_host_and_the_rest_inside(crabpot, imported):
    ended = imported("personal")
    for key in ("channels", "gateway", "models", "agents.defaults.model", "agents.defaults.heartbeat"):
        assert f"left out {key}: " in ended.err
    assert explained(crabpot, "agent:main:main")["placement"]["where"] == "host"
    assert explained(crabpot, "agent:main:telegram:1")["placement"]["where"] == "sandbox"
    assert ended.json["tools"]["elevated"]["allowFrom"] == ["telegram:111"]


def test_a_hardened_one_keeps_its_limits(crabpot, imported):
    ended = imported("hardened")
    sandbox = ended.json["agents"]["defaults"]["sandbox"]
    assert sandbox["limits"] == {"pids": 256, "memory": "1g", "cpus": 1, "openFiles": 1024}
    for key in ("readOnlyRoot", "capDrop", "dns", "extraHosts", "memorySwap", "ulimits.nproc"):
        assert f"left out agents.defaults.sandbox.docker.{key}: " in ended.err
    found = explained(crabpot, "agent:main:main")
    assert (found["sandbox"]["workspace"], found["sandbox"]["scope"]) == ("ro", "agent")
    assert "exec" in found["tools"]["effective"]
    assert "grep" not in found["tools"]["effective"]


def test_a_familys_agents_keep_their_own_rules(crabpot, imported):
    imported("family")
    assert explained(crabpot, "agent:main:main")["placement"]["where"] == "host"
    family = explained(crabpot, "agent:family:main")
    assert (family["placement"]["where"], family["tools"]["effective"]) == ("sandbox", ["read"])
    assert "message" in explained(crabpot, "agent:public:main")["tools"]["effective"]


def test_a_coding_agent_keeps_its_profile_image_and_network(crabpot, imported):
    ended = imported("coding")
    found = explained(crabpot, "agent:main:main")
    assert {"exec", "read", "web_search", "lobster"} <= set(found["tools"]["effective"])
    assert found["sandbox"]["network"] == "bridge"
    assert "crabpot import mcp" in ended.err
    assert "left out tools.deny[1]: Crabpot has no group group:ui" in ended.err


def test_a_backend_that_is_not_here_becomes_ours_and_stays_a_sandbox(crabpot, imported):
    ended = imported("ssh")
    assert "left out agents.defaults.sandbox.backend: " in ended.err
    assert explained(crabpot, "agent:main:main")["placement"]["where"] == "sandbox"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{ agents: ", ":1: "),
        ("[]", "must be an object"),
        ('{"agents":{"defaults":{"sandbox":{"mode":"sometimes"}}}}', "cannot be translated"),
    ],
)
def test_a_file_that_means_nothing_is_refused(crabpot, tmp_path, text, told):
    file = tmp_path / "openclaw.json"
    file.write_text(text)
    ended = crabpot("import", "openclaw", str(file))
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err


def test_a_missing_file_is_told(crabpot):
    assert crabpot("import", "openclaw", "/nonexistent").code in (1, 2)
