"""smolagents: `CodeAgent(…, executor=CrabpotExecutor())` keeps a Python kernel in a sandbox."""

from __future__ import annotations

import json
import time
from typing import Any

from crabpot import sync
from crabpot.errors import CrabpotError
from crabpot.integrations.versions import require

require("smolagents", "1.20", "2", extra="smolagents")

from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.utils import AgentError

__all__ = ["CrabpotExecutor"]

_PACKAGES = "/workspace/.packages"
_POLL_S, _LONGEST_POLL_S = 0.005, 0.1

# One line of JSON in for each piece of code, one line of JSON out. Its standard output belongs to the answers, so what
# the code prints is kept apart.
_KERNEL = """
import ast, contextlib, io, json, sys, traceback
answers, names = sys.stdout, {"__name__": "__main__"}
for line in sys.stdin:
    logs, answer = io.StringIO(), {"value": None, "error": None}
    try:
        with contextlib.redirect_stdout(logs), contextlib.redirect_stderr(logs):
            tree = ast.parse(json.loads(line)["code"], "<agent>")
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<agent>", "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "<agent>", "eval"), names)
                answer["value"] = None if value is None else repr(value)
    except BaseException as error:
        answer["error"] = {"name": type(error).__name__, "value": str(error), "trace": traceback.format_exc()}
    answers.write(json.dumps({**answer, "logs": logs.getvalue()}) + "\\n")
    answers.flush()
"""

# Not an Exception: code that catches all of those must not swallow its own answer.
_FINAL_ANSWER = f"""
import json
class {RemotePythonExecutor.FINAL_ANSWER_EXCEPTION}(BaseException): pass
def final_answer(answer=None):
    raise {RemotePythonExecutor.FINAL_ANSWER_EXCEPTION}(json.dumps(answer, default=repr))
"""


class CrabpotExecutor(RemotePythonExecutor):
    """Runs an agent's code in a sandbox of Crabpot, where names live on from one step to the next.

    Args:
        additional_imports: Packages to install inside; that needs a network.
        logger: The agent's logger.
        timeout: The time limit of one step, in seconds.
        **settings: As for `crabpot.sandbox`: `network={"allow": […]}`, `limits={…}`.
    """

    def __init__(
        self,
        additional_imports: list[str] | None = None,
        logger: Any = None,
        *,
        timeout: float = 60.0,
        **settings: Any,
    ) -> None:
        super().__init__(additional_imports or [], logger or AgentLogger())
        self._timeout_s = timeout
        self._box = sync.open_sandbox(**{"limits": {"output": "16m"}, **settings})
        self._process = self._start()
        self.installed_packages = self.install_packages(self.additional_imports)

    def _start(self) -> str:
        kernel = ["python3", "-u", "-c", _KERNEL]
        started = self._box.call("exec", command=kernel, env={"PYTHONPATH": _PACKAGES}, background=True)
        if started.error is not None:
            raise CrabpotError(f"the kernel did not start: {started.error.message}")
        return str((started.data or {})["process"])

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Run code; AgentError with its traceback if it fails, as the framework expects."""
        answer = self._ask(code)
        error = answer.get("error")
        logs = str(answer.get("logs", ""))
        if error is None:
            return CodeOutput(output=answer.get("value"), logs=logs, is_final_answer=False)
        if error.get("name") == self.FINAL_ANSWER_EXCEPTION:
            # JSON, never a pickle: what comes out of a sandbox is hostile.
            value = json.loads(str(error.get("value")))
            return CodeOutput(output=value, logs=logs, is_final_answer=True)
        raise AgentError(f"{logs}\n{error.get('trace')}", self.logger)

    def send_tools(self, tools: dict[str, Any]) -> None:
        """Define the agent's tools in the kernel; the final answer comes out as JSON."""
        self.run_code_raise_errors(_FINAL_ANSWER)
        super().send_tools({name: tool for name, tool in tools.items() if name != "final_answer"})

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Install packages for the kernel, inside; without a network none are, and the code that needs one fails."""
        if additional_imports:
            install = ["python3", "-m", "pip", "install", "--quiet", "--target", _PACKAGES, *additional_imports]
            done = self._box.exec(install, timeout=None, text=True)
            if not done.success:
                why = done.error.message if done.error else done.stderr.strip()[-500:]
                self.logger.log(f"not installed: {', '.join(additional_imports)}: {why}")
        return additional_imports

    def _ask(self, code: str) -> dict[str, Any]:
        written = self._box.call("process", action="write", id=self._process, data=json.dumps({"code": code}) + "\n")
        said, deadline, pause = written.stdout, time.monotonic() + self._timeout_s, _POLL_S
        while "\n" not in said:
            polled = self._box.call("process", action="poll", id=self._process)
            said += polled.stdout
            ended = polled.error is not None or not (polled.data or {}).get("running")
            if ended or time.monotonic() > deadline:
                self._restart(polled.error is None)
                why = "ended" if ended else f"took longer than {self._timeout_s:g} s"
                raise AgentError(f"the Python kernel {why}; its names are lost, and a new one was started", self.logger)
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_POLL_S)
        answer = json.loads(said.split("\n", 1)[0])
        if not isinstance(answer, dict):
            raise AgentError("the Python kernel answered in no way that it does", self.logger)
        return answer

    def _restart(self, running: bool) -> None:
        if running:
            self._box.call("process", action="kill", id=self._process)
        self._process = self._start()

    def cleanup(self) -> None:
        """End the sandbox."""
        self._box.close()
