"""llm-sandbox over Docker: a container for each session, an engine exec for every command."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from typing import Any

NAME = "llm-sandbox, docker"
PACKAGES: tuple[str, ...] = ("llm-sandbox[docker]==0.3.46",)
NPM: tuple[str, ...] = ()
BEYOND = (
    "runs code of many languages with their packages installed on demand, and has Kubernetes, Podman and Windows "
    "backends"
)


class Adapter:
    """One session that is kept, and one for each opening."""

    image = os.environ.get("CRABPOT_BENCH_IMAGE", "crabpot-sandbox:latest")

    def start(self) -> str:
        """Open the session that is kept."""
        self.docker: Any = importlib.import_module("llm_sandbox.docker")
        self.kept = self._session()
        self.exec()
        return importlib.metadata.version("llm-sandbox")

    def _session(self) -> Any:
        made = self.docker.SandboxDockerSession(
            image=self.image,
            lang="python",
            keep_template=True,
            skip_environment_setup=True,
            workdir="/tmp",  # noqa: S108  the container's own
            # Without an init, stopping waits ten seconds for a process that ignores signals.
            runtime_configs={"network_mode": "none", "init": True},
        )
        made.open()
        return made

    def open(self) -> Any:
        """Run a session to the end of its first command."""
        made = self._session()
        assert made.execute_command("true").exit_code == 0
        return made

    def shut(self, made: Any) -> None:
        """Close it."""
        made.close()

    def exec(self) -> None:
        """Run a command in the session that is kept."""
        assert self.kept.execute_command("sh -c true").exit_code == 0

    def stop(self) -> None:
        """Close the session."""
        self.kept.close()
