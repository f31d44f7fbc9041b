"""The cluster of `scripts/cluster`, with the programs that run it. Nothing here skips: `make test-cluster` starts it first."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

NAMESPACE = "crabpot"
# Fields of a process, after its name.
_PARENT, _BEGAN = 1, 19


class Cluster:
    """The cluster as its operator sees it: through kubectl, and as processes of this machine."""

    def __init__(self, folder: Path, kubeconfig: str) -> None:
        self.kubeconfig = kubeconfig
        # Of the builds that are kept, the one that runs.
        self._bin = (folder / "run/bin").resolve() / "kubectl"
        self._first = (folder / "run/pid").read_text().split()[0]

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run kubectl in the sandboxes' namespace, and return what it printed."""
        return self.anywhere("--namespace", NAMESPACE, *words, stdin=stdin)

    def anywhere(self, *words: str, stdin: str | None = None) -> str:
        """Do the same in no namespace, or in one that the words name."""
        ended = subprocess.run(self.argv(*words), input=stdin, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, f"kubectl {' '.join(words)}: {ended.stderr}"
        return ended.stdout

    def argv(self, *words: str) -> list[str]:
        """Return the words of a kubectl that is started otherwise."""
        return [str(self._bin), "--kubeconfig", self.kubeconfig, *words]

    def on_the_node(self, program: str, *words: str) -> list[str]:
        """Return the words that start a program of the cluster's, or of this machine's, in the node's network."""
        own = self._bin.with_name(program)
        return ["nsenter", "--target", self._first, "--net", str(own) if own.exists() else program, *words]

    def pods(self, selector: str = "app.kubernetes.io/managed-by=crabpot") -> list[dict[str, Any]]:
        """List the pods with these labels."""
        listed: list[dict[str, Any]] = json.loads(self.kubectl("get", "pods", "-o", "json", "-l", selector))["items"]
        return listed

    def process(self, name: str) -> int:
        """Return the id of the process that runs a component of this very cluster."""
        program = str(self._bin.with_name(name))
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "exe") == program:
                    return int(entry.name)
            except OSError:
                continue
        raise AssertionError(f"{name} does not run")

    def processes(self, pod: dict[str, Any]) -> list[int]:
        """Return what was started in a pod's container from outside, as this machine numbers it: who waits, then the runner."""
        own = _own(pod)
        outside = [pid for pid in own if _field(pid, _PARENT) not in own]
        # The first is the one that holds the pod's namespaces, in a container of its own.
        return sorted(outside, key=lambda pid: _field(pid, _BEGAN))[1:]

    def programs(self, pod: dict[str, Any]) -> set[str]:
        """Return the names of all that runs in a pod."""
        return {_name(pid) for pid in _own(pod)}


def _own(pod: dict[str, Any]) -> list[int]:
    uid = pod["metadata"]["uid"]
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _is_of(entry, uid)]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _is_of(entry: Path, uid: str) -> bool:
    try:
        return uid in (entry / "cgroup").read_text()
    except OSError:
        return False


def _field(pid: int, number: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[number])
    except OSError:
        return 0


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """Return the cluster of this run."""
    folder, kubeconfig = os.environ.get("CRABPOT_TEST_CLUSTER"), os.environ.get("KUBECONFIG")
    assert folder, "run this by make test-cluster (scripts/test-cluster)"
    assert kubeconfig, "run this by make test-cluster (scripts/test-cluster)"
    return Cluster(Path(folder), kubeconfig)
