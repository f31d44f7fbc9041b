"""Docker's command line: a `docker exec` for every call into a container that is kept, as OpenClaw and Miclaw do."""

from __future__ import annotations

import os
import subprocess

NAME = "docker CLI"
PACKAGES: tuple[str, ...] = ()
NPM: tuple[str, ...] = ()
BEYOND = (
    "runs any image, on an engine that other programs share; with another runtime (Kata) behind the boundary of a "
    "virtual machine. "
    "Not in the figures: policy, audit, limits on output and time"
)

_CONTENT = ("x" * 63 + "\n") * 64


class Adapter:
    """One container that is kept, and one for each opening."""

    image = os.environ.get("CRABPOT_BENCH_IMAGE", "crabpot-sandbox:latest")

    def start(self) -> str:
        """Start the container that is kept."""
        self.name = f"crabpot-bench-{os.getpid()}"
        _docker("run", "-d", "--rm", "--name", self.name, "--network=none", self.image, "sleep", "3600")
        self.write()
        return _docker("version", "--format", "client {{.Client.Version}}, engine {{.Server.Version}}").strip()

    def open(self) -> None:
        """Run a container to the end of its command."""
        _docker("run", "--rm", "--network=none", self.image, "true")

    def exec(self) -> None:
        """Run a command in the container that is kept."""
        _docker("exec", self.name, "sh", "-c", "true")

    def read(self) -> None:
        """Read a small file from it."""
        assert _docker("exec", self.name, "cat", "/tmp/small") == _CONTENT  # noqa: S108  the container's own

    def write(self) -> None:
        """Write a small file into it."""
        _docker("exec", "-i", self.name, "sh", "-c", "cat > /tmp/small", given=_CONTENT)

    def stop(self) -> None:
        """Remove the container."""
        _docker("rm", "-f", self.name)


def _docker(*arguments: str, given: str | None = None) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, input=given, check=False)
    if done.returncode:
        raise OSError((done.stderr.strip().splitlines() or ["docker failed"])[0])
    return done.stdout
