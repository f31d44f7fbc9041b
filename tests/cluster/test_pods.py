"""What a cluster does not keep is refused with the way out, and a gateway that is killed leaves nothing running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.suites import open_gateway
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.cluster.conftest import Cluster

_KILLED = """
import asyncio, os, signal, sys
from tests.support.suites import open_gateway
async def main():
    gateway = open_gateway(sys.argv[1], sys.argv[2])
    result = await gateway.call(sys.argv[3], "exec", command="sleep 600 & echo begun", detach=True)
    print(result.stdout, result.error, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def configured(**kubernetes: object) -> str:
    return json.dumps({"agents": {"defaults": {"sandbox": {"backend": "kubernetes", "kubernetes": kubernetes}}}})


async def refused(text: str, state: Path) -> str:
    gateway = open_gateway(text, str(state))
    try:
        result = await gateway.call(f"agent:main:{os.urandom(4).hex()}", "exec", command="true")
        assert result.error is not None
        assert result.error.code == "sandbox_unavailable"
        return result.error.message
    finally:
        await gateway.close()


async def test_a_policy_that_the_network_plugin_ignores_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """The bridge plugin of this cluster enforces none: pods reach the API server's service, policy or not."""
    said = await refused(configured(inet="policy"), tmp_path / "state")
    assert "the NetworkPolicy crabpot-deny-all is not enforced: the pod reached" in said
    assert "tcp 10.124.0.1 443" in said
    assert 'kubernetes.inet: "refuse"' in said
    assert cluster.pods("crabpot.dev/control") == []


async def test_a_refused_policy_is_not_looked_at_again_by_the_next_call(tmp_path: Path) -> None:
    gateway = open_gateway(configured(inet="policy"), str(tmp_path / "state"))
    try:
        first = await gateway.call("agent:main:first", "exec", command="true")
        began = time.monotonic()
        second = await gateway.call("agent:main:second", "exec", command="true")
        assert first.error == second.error
        # The look waits 20 s for the policy to take effect.
        assert time.monotonic() - began < 10
    finally:
        await gateway.close()


async def test_a_private_folder_on_a_claim_outlives_its_pod(cluster: Cluster, tmp_path: Path) -> None:
    """The volume is a folder of the node, made by hand: this cluster has nobody who makes any."""
    name = f"claimed-{os.urandom(4).hex()}"
    folder = Path("/var/tmp") / name
    folder.mkdir()
    folder.chmod(0o777)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "64Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(volume))
    text = configured(inet="refuse", storage={"size": "64m", "class": name})
    try:
        for command, printed in (("echo kept > file", ""), ("cat file", "kept\n")):
            gateway = open_gateway(text, str(tmp_path / "state"))
            try:
                result = await gateway.call(f"agent:main:{name}", "exec", command=command)
                assert (result.stdout, result.error) == (printed, None)
            finally:
                await gateway.close()
    finally:
        cluster.kubectl("delete", "pvc", "--wait=false", "-l", f"crabpot.dev/scope={_claimed(cluster, name)}")
        cluster.kubectl("delete", "--wait=false", "pv", name)
        shutil.rmtree(folder)


def _claimed(cluster: Cluster, name: str) -> str:
    listed = json.loads(cluster.kubectl("get", "pvc", "-o", "json"))["items"]
    (scope,) = [one["metadata"]["labels"]["crabpot.dev/scope"] for one in listed if name in one["metadata"]["name"]]
    return str(scope)


async def test_a_runtime_class_is_passed_on(cluster: Cluster, tmp_path: Path) -> None:
    made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "by-hand"}, "handler": "runc"}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    gateway = open_gateway(configured(inet="refuse", runtimeClass="by-hand"), str(tmp_path / "state"))
    try:
        session = f"agent:main:{os.urandom(4).hex()}"
        assert (await gateway.call(session, "exec", command="true")).error is None
        (pod,) = [one for one in cluster.pods() if session.rpartition(":")[2] in one["metadata"]["name"]]
        assert pod["spec"]["runtimeClassName"] == "by-hand"
    finally:
        await gateway.close()
        cluster.kubectl("delete", "runtimeclass", "by-hand")


async def test_an_image_that_cannot_be_pulled_and_a_node_that_is_not_there_are_told(tmp_path: Path) -> None:
    assert "none/such:1 cannot be pulled" in await refused(
        configured(inet="refuse", image="none/such:1"), tmp_path / "a"
    )
    nowhere = configured(inet="refuse", nodeSelector={"pool": "none"})
    assert "no node takes it: 0/1 nodes are available" in await refused(nowhere, tmp_path / "b")
    assert "no RuntimeClass none" in await refused(configured(inet="refuse", runtimeClass="none"), tmp_path / "c")
    assert "no namespace nowhere" in await refused(configured(inet="refuse", namespace="nowhere"), tmp_path / "d")


def test_a_killed_gateway_leaves_no_process_in_its_pod(cluster: Cluster, tmp_path: Path) -> None:
    session = f"agent:main:{os.urandom(4).hex()}"
    argv = [sys.executable, "-c", _KILLED, configured(inet="refuse"), str(tmp_path / "state"), session]
    ended = subprocess.run(
        argv, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, "PYTHONPATH": "."}
    )
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.startswith("begun"), ended.stdout + ended.stderr
    word = session.rpartition(":")[2]

    def over() -> bool:
        (pod,) = [one for one in cluster.pods() if word in one["metadata"]["name"]]
        return pod["status"]["phase"] == "Succeeded"

    wait_until(over)
    for one in cluster.pods():
        if word in one["metadata"]["name"]:
            cluster.kubectl("delete", "pod", one["metadata"]["name"], "--wait=false")
