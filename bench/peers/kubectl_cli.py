"""Kubernetes' command line: a `kubectl exec` for every call into a pod that is kept, as most agents on a cluster do."""

from __future__ import annotations

import json
import os
import subprocess

NAME = "kubectl"
PACKAGES: tuple[str, ...] = ()
NPM: tuple[str, ...] = ()
BEYOND = "runs in any container of any pod. Not in the figures: policy, audit, limits on output and time"

_CONTENT = ("x" * 63 + "\n") * 64
_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}


class Adapter:
    """One pod that is kept, and one for each opening."""

    namespace = os.environ.get("CRABPOT_BENCH_NAMESPACE", "crabpot")
    image = os.environ.get("CRABPOT_BENCH_IMAGE", "crabpot-sandbox:latest")

    def start(self) -> str:
        """Start the pod that is kept."""
        self.name = f"bench-kubectl-{os.getpid()}"
        self._count = 0
        self._run(self.name)
        self.write()
        said = json.loads(_kubectl("version", "-o", "json"))
        return f"client {said['clientVersion']['gitVersion']}, server {said['serverVersion']['gitVersion']}"

    def open(self) -> None:
        """Start a pod and run one command in it."""
        self._count += 1
        name = f"{self.name}-{self._count}"
        try:
            self._run(name)
            _kubectl("exec", "-n", self.namespace, name, "--", "true")
        finally:
            _kubectl("delete", "pod", "-n", self.namespace, name, "--wait=false", "--grace-period=0", "--force")

    def exec(self) -> None:
        """Run a command in the pod that is kept."""
        _kubectl("exec", "-n", self.namespace, self.name, "--", "sh", "-c", "true")

    def read(self) -> None:
        """Read a small file from it."""
        assert _kubectl("exec", "-n", self.namespace, self.name, "--", "cat", "/tmp/small") == _CONTENT  # noqa: S108  the pod's own

    def write(self) -> None:
        """Write a small file into it."""
        where = ("-n", self.namespace, "-i", self.name)
        _kubectl("exec", *where, "--", "sh", "-c", "cat > /tmp/small", given=_CONTENT)

    def stop(self) -> None:
        """Remove the pod."""
        _kubectl("delete", "pod", "-n", self.namespace, self.name, "--wait=false", "--grace-period=0", "--force")

    def _run(self, name: str) -> None:
        container = {
            "name": "bench",
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sleep", "3600"],
            "securityContext": _SECURITY,
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  the pod's own
        }
        spec = {
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": self.namespace}, "spec": spec}
        _kubectl("create", "-f", "-", given=json.dumps(pod))
        _kubectl("wait", "-n", self.namespace, f"pod/{name}", "--for=condition=Ready", "--timeout=60s")


def _kubectl(*arguments: str, given: str | None = None) -> str:
    program = os.environ.get("CRABPOT_BENCH_KUBECTL")
    if program is None:
        # Whatever cluster a person's kubectl finds may be one that others work with.
        raise OSError("no cluster to measure on; scripts/cluster start")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, input=given, check=False)
    if done.returncode:
        raise OSError((done.stderr.strip().splitlines() or ["kubectl failed"])[0])
    return done.stdout
