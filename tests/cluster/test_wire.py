"""No byte of the wire reaches the node's disk: what `kubectl logs` shows, and what the kubelet wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.suites import configured, open_gateway

if TYPE_CHECKING:
    from tests.cluster.conftest import Cluster


async def test_no_byte_of_the_wire_is_in_the_logs(cluster: Cluster, tmp_path: Path) -> None:
    """Commands, what they print, files both ways and standard input: none of it in a log of the node."""
    secret = f"pot-{os.urandom(8).hex()}"
    gateway = open_gateway(configured("kubernetes"), str(tmp_path / "state"))
    try:
        session = f"agent:main:{os.urandom(4).hex()}"
        result = await gateway.call(
            session, "exec", {"command": f"echo {secret}; echo {secret} >&2; cat", "stdin": secret}
        )
        assert (result.stdout, result.stderr) == (f"{secret}\n{secret}", f"{secret}\n")
        written = await gateway.call(session, "write", {"path": "kept", "content": secret * 1000})
        assert written.success
        assert (await gateway.call(session, "read", {"path": "kept"})).data["content"] == secret * 1000
        pods = cluster.pods()
        assert pods
        for pod in pods:
            name = pod["metadata"]["name"]
            assert cluster.kubectl("logs", name, "--all-containers") == ""
        kept = list(Path(os.environ["CRABPOT_TEST_CLUSTER"]).glob("run/own/var/log/pods/*/*/*.log"))
        assert kept, "the kubelet keeps its logs elsewhere: this looks at nothing"
        assert not [path for path in kept if secret.encode() in path.read_bytes()]
    finally:
        await gateway.close()


def test_what_a_main_process_prints_is_logged(cluster: Cluster) -> None:
    """The control: the same look finds what is there."""
    secret = f"control-{os.urandom(8).hex()}"
    image = "--image=crabpot-sandbox:latest"
    overrides = (
        '{"spec": {"securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},'
        f' "containers": [{{"name": "{secret}", "image": "crabpot-sandbox:latest", "imagePullPolicy": "IfNotPresent",'
        f' "command": ["sh", "-c", "echo {secret}"], "securityContext": {{"allowPrivilegeEscalation": false,'
        ' "capabilities": {"drop": ["ALL"]}}}]}}'
    )
    cluster.kubectl("run", secret, image, "--restart=Never", f"--overrides={overrides}")
    try:
        cluster.kubectl("wait", f"pod/{secret}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
        assert secret in cluster.kubectl("logs", secret)
        kept = Path(os.environ["CRABPOT_TEST_CLUSTER"]).glob("run/own/var/log/pods/*/*/*.log")
        assert [path for path in kept if secret.encode() in path.read_bytes()]
    finally:
        cluster.kubectl("delete", "pod", secret, "--grace-period=0", "--force")
