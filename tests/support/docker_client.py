"""The real docker client, over the engine of the tests."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Any

from tests.support.program import PATIENCE_S


@dataclass(frozen=True, kw_only=True)
class Docker:
    """The real client, over the engine of the tests; what it makes is removed at the end."""

    host: str
    containers: list[str]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", "--host", self.host, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def inspect(self, name: str) -> Any:
        said = self("inspect", name)
        assert said.returncode == 0, said.stderr
        return json.loads(said.stdout)[0]

    def name(self) -> str:
        """Return a name that no other container has, and that is cleared away."""
        made = f"crabpot-test-{os.urandom(4).hex()}"
        self.containers.append(made)
        return made

    def paste(self, text: str, *, shell: str = "sh") -> subprocess.CompletedProcess[str]:
        """Do with a text what a person does who pastes it."""
        environ = {"PATH": os.environ["PATH"], "DOCKER_HOST": self.host, "HOME": "/nonexistent"}
        return subprocess.run(
            [shell, "-c", text], env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
