"""SWE-ReX, in its local deployment: the same runtime that it puts into containers, without the container."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import tempfile
from typing import Any

NAME = "SWE-ReX, local"
PACKAGES: tuple[str, ...] = ("swe-rex==1.4.*",)
NPM: tuple[str, ...] = ()
BEYOND = (
    "keeps shell sessions with their variables, and deploys to Modal, Fargate and Daytona. Its local deployment "
    "isolates nothing, so the figure is that of its runtime alone; its docker deployment needs an image of its own"
)

_CONTENT = ("x" * 63 + "\n") * 64


class Adapter:
    """One deployment that is kept, and one for each opening."""

    async def start(self) -> str:
        """Start the deployment that is kept."""
        self.local: Any = importlib.import_module("swerex.deployment.local")
        self.words: Any = importlib.import_module("swerex.runtime.abstract")
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "small")
        self.kept = self.local.LocalDeployment()
        await self.kept.start()
        await self.write()
        return importlib.metadata.version("swe-rex")

    async def open(self) -> Any:
        """Run a deployment to the end of its first command."""
        made = self.local.LocalDeployment()
        await made.start()
        await made.runtime.execute(self.words.Command(command=["sh", "-c", "true"], check=True))
        return made

    async def shut(self, made: Any) -> None:
        """End it."""
        await made.stop()

    async def exec(self) -> None:
        """Run a command."""
        await self.kept.runtime.execute(self.words.Command(command=["sh", "-c", "true"], check=True))

    async def read(self) -> None:
        """Read a small file."""
        found = await self.kept.runtime.read_file(self.words.ReadFileRequest(path=self.path))
        assert found.content == _CONTENT

    async def write(self) -> None:
        """Write a small file."""
        await self.kept.runtime.write_file(self.words.WriteFileRequest(path=self.path, content=_CONTENT))

    async def stop(self) -> None:
        """End the deployment."""
        await self.kept.stop()
        self.folder.cleanup()
