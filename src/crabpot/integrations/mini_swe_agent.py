"""mini-swe-agent: `environment_class: crabpot.integrations.mini_swe_agent.CrabpotEnvironment`."""

from __future__ import annotations

import platform
from typing import Any

from pydantic import BaseModel

from crabpot import sync
from crabpot.integrations.versions import require

require("mini-swe-agent", "2.0", "3", extra="mini-swe-agent")

from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge

__all__ = ["CrabpotEnvironment", "CrabpotEnvironmentConfig"]

_DONE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class CrabpotEnvironmentConfig(BaseModel):
    """Where commands run. `folder` and `settings` are those of `crabpot.sandbox`."""

    cwd: str = ""
    env: dict[str, str] = {}
    timeout: int = 30
    folder: str | None = None
    settings: dict[str, Any] = {}


class CrabpotEnvironment:
    """A sandbox of Crabpot as an environment; `cleanup` ends it."""

    def __init__(
        self, *, config_class: type[CrabpotEnvironmentConfig] = CrabpotEnvironmentConfig, **kwargs: Any
    ) -> None:
        self.config = config_class(**kwargs)
        self._box = sync.open_sandbox(self.config.folder, **self.config.settings)

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run shell text; what failed outside the command is in `exception_info`."""
        limit = min(timeout or self.config.timeout, self._box.time_ceiling)
        done = self._box.exec(
            action.get("command", ""),
            cwd=cwd or self.config.cwd or None,
            env=self.config.env or None,
            timeout=limit,
            text=True,
            merged=True,
        )
        output: dict[str, Any] = {"output": done.stdout, "returncode": done.exit_code, "exception_info": ""}
        if done.error is not None:
            said = f"An error occurred while executing the command: {done.error.message}"
            extra = {"exception_type": done.error.code, "exception": done.error.message}
            output |= {"returncode": -1, "exception_info": said, "extra": extra}
        _check_finished(output)
        return output

    def cleanup(self) -> None:
        """End the sandbox."""
        self._box.close()

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """Return what the framework's templates may name; nothing of the host's environment is in it."""
        merged: dict[str, Any] = recursive_merge(self.config.model_dump(), platform.uname()._asdict(), kwargs)
        return merged

    def serialize(self) -> dict[str, Any]:
        """Return the configuration, for the framework's log."""
        kind = f"{self.__class__.__module__}.{self.__class__.__name__}"
        config = {"environment": self.config.model_dump(mode="json"), "environment_type": kind}
        return {"info": {"config": config}}


def _check_finished(output: dict[str, Any]) -> None:
    """Raise what ends the framework's run, when a command says that the task is complete."""
    lines = output["output"].lstrip().splitlines(keepends=True)
    if lines and lines[0].strip() == _DONE and output["returncode"] == 0:
        text = "".join(lines[1:])
        extra = {"exit_status": "Submitted", "submission": text}
        raise Submitted({"role": "exit", "content": text, "extra": extra})
