"""smolagents: a code agent with a scripted model, whose code runs in a kept kernel."""

from __future__ import annotations

import pytest
from smolagents import CodeAgent
from smolagents.utils import AgentError

from crabpot.integrations.smolagents import CrabpotExecutor
from tests.frameworks.smolagents.provider import Scripted


@pytest.fixture
def executor(tmp_path):
    made = CrabpotExecutor(state=str(tmp_path / "state"), timeout=10)
    yield made
    made.cleanup()


def test_names_live_on_and_failures_are_told(executor) -> None:
    executor.run_code_raise_errors("x = 6")
    done = executor.run_code_raise_errors("print('said')\nx * 7")
    assert (done.output, done.logs, done.is_final_answer) == ("42", "said\n", False)
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        executor.run_code_raise_errors("1 / 0")
    with pytest.raises(AgentError, match="kernel ended"):
        executor.run_code_raise_errors("import os; os._exit(3)")
    with pytest.raises(AgentError, match="NameError"):
        executor.run_code_raise_errors("x")
    with pytest.raises(AgentError, match="took longer"):
        executor.run_code_raise_errors("while True: pass")


def test_an_agent_solves_its_task(executor) -> None:
    agent = CodeAgent(
        tools=[], model=Scripted("import os\nwho = os.getcwd()", "final_answer([who, 6 * 7])"), executor=executor
    )
    assert agent.run("compute") == ["/workspace", 42]
