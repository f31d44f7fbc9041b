"""mini-swe-agent: its default agent with its own deterministic model, in a sandbox."""

from __future__ import annotations

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.models.test_models import DeterministicModel, make_output

from crabpot.integrations.mini_swe_agent import CrabpotEnvironment


@pytest.fixture
def environment(tmp_path):
    made = CrabpotEnvironment(settings={"state": str(tmp_path / "state")}, env={"GREETING": "hello"})
    yield made
    made.cleanup()


def test_a_command_runs_and_a_time_limit_is_told(environment) -> None:
    assert environment.execute({"command": "echo $GREETING; echo err >&2; exit 3"}) == {
        "output": "hello\nerr\n",
        "returncode": 3,
        "exception_info": "",
    }
    late = environment.execute({"command": "sleep 60"}, timeout=1)
    assert late["returncode"] == -1
    assert "time limit" in late["exception_info"]
    assert environment.serialize()["info"]["config"]["environment_type"].endswith("CrabpotEnvironment")


def test_an_agent_solves_its_task(environment) -> None:
    script = ["echo 42 > answer", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat answer"]
    model = DeterministicModel(outputs=[make_output("next", [{"command": command}]) for command in script])
    agent = DefaultAgent(model, environment, system_template="s", instance_template="i")
    result = agent.run("compute")
    assert result["exit_status"] == "Submitted"
    assert result["submission"] == "42\n"
