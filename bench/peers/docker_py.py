"""docker-py: the engine's API, an exec created and started for every call."""

from __future__ import annotations

import importlib
import io
import os
import tarfile
from typing import Any

NAME = "docker-py"
PACKAGES: tuple[str, ...] = ("docker==7.2.*",)
NPM: tuple[str, ...] = ()
BEYOND = "all of the engine's API: images, networks, volumes, remote engines"

_CONTENT = ("x" * 63 + "\n") * 64


class Adapter:
    """One container that is kept, and one for each opening."""

    image = os.environ.get("CRABPOT_BENCH_IMAGE", "crabpot-sandbox:latest")

    def start(self) -> str:
        """Start the container that is kept."""
        docker = importlib.import_module("docker")
        self.client: Any = docker.from_env()
        self.kept: Any = self.client.containers.run(
            self.image, ["sleep", "3600"], detach=True, remove=True, network_mode="none"
        )
        self.write()
        return f"{docker.__version__}, engine {self.client.version()['Version']}"

    def open(self) -> None:
        """Run a container to the end of its command."""
        self.client.containers.run(self.image, ["true"], remove=True, network_mode="none")

    def exec(self) -> None:
        """Run a command in the container that is kept."""
        made = self.client.api.exec_create(self.kept.id, ["sh", "-c", "true"])
        self.client.api.exec_start(made["Id"])
        assert self.client.api.exec_inspect(made["Id"])["ExitCode"] == 0

    def read(self) -> None:
        """Read a small file from it, as the engine returns files: in a tar archive."""
        pieces, _ = self.kept.get_archive("/tmp/small")  # noqa: S108  the container's own
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
            found = archive.extractfile("small")
            assert found is not None
            assert found.read().decode() == _CONTENT

    def write(self) -> None:
        """Write a small file into it."""
        entry, held = tarfile.TarInfo("small"), io.BytesIO()
        entry.size = len(_CONTENT)
        with tarfile.open(fileobj=held, mode="w") as archive:
            archive.addfile(entry, io.BytesIO(_CONTENT.encode()))
        assert self.kept.put_archive("/tmp", held.getvalue())  # noqa: S108  as above

    def stop(self) -> None:
        """Remove the container."""
        self.kept.remove(force=True)
