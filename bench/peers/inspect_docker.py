"""inspect_ai's docker sandbox: a compose project for each sample, `docker compose exec` for every command."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import tempfile
from typing import Any

NAME = "inspect_ai, docker"
PACKAGES: tuple[str, ...] = ("inspect_ai==0.3.285",)
NPM: tuple[str, ...] = ()
BEYOND = (
    "brings up several containers for one sample, from any compose file, as part of a whole framework for evaluations"
)

_CONTENT = ("x" * 63 + "\n") * 64
_TASK = "crabpot-bench"
_COMPOSE = """services:
  default:
    image: {image}
    command: ["sleep", "3600"]
    init: true
    network_mode: none
    x-local: true
"""


class Adapter:
    """One sample that is kept, and one for each opening."""

    image = os.environ.get("CRABPOT_BENCH_IMAGE", "crabpot-sandbox:latest")

    async def start(self) -> str:
        """Start the sample that is kept."""
        docker: Any = importlib.import_module("inspect_ai.util._sandbox.docker.docker")
        concurrency: Any = importlib.import_module("inspect_ai.util._concurrency")
        concurrency.init_concurrency()
        subprocesses: Any = importlib.import_module("inspect_ai.util._subprocess")
        subprocesses.init_max_subprocesses()
        self.environment: Any = docker.DockerSandboxEnvironment
        self.folder = tempfile.TemporaryDirectory()
        self.config = os.path.join(self.folder.name, "compose.yaml")
        with open(self.config, "w", encoding="utf-8") as stream:
            stream.write(_COMPOSE.format(image=self.image))
        await self.environment.task_init(_TASK, self.config)
        self.sample = await self.environment.sample_init(_TASK, self.config, {})
        self.kept = self.sample["default"]
        await self.write()
        return importlib.metadata.version("inspect_ai")

    async def open(self) -> Any:
        """Run a sample to the end of its first command."""
        made = await self.environment.sample_init(_TASK, self.config, {})
        assert (await made["default"].exec(["true"])).success
        return made

    async def shut(self, made: Any) -> None:
        """End it."""
        await self.environment.sample_cleanup(_TASK, self.config, made, False)

    async def exec(self) -> None:
        """Run a command in the sample that is kept."""
        assert (await self.kept.exec(["sh", "-c", "true"])).success

    async def read(self) -> None:
        """Read a small file from it."""
        assert await self.kept.read_file("/tmp/small") == _CONTENT  # noqa: S108  the container's own

    async def write(self) -> None:
        """Write a small file into it."""
        await self.kept.write_file("/tmp/small", _CONTENT)  # noqa: S108  as above

    async def stop(self) -> None:
        """End the sample."""
        await self.shut(self.sample)
        await self.environment.task_cleanup(_TASK, self.config, True)
        self.folder.cleanup()
