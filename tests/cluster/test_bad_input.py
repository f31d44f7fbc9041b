"""A cluster that is away, forbids, has no room, restarts or stops answering: each is told with what to do, and nothing runs here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
import yaml

from crabpot import app
from tests.support.suites import configured, open_gateway
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.gateway import Gateway
    from tests.cluster.conftest import Cluster

ROLE = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "list", "delete"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["create", "get", "list", "patch", "delete"],
    },
]
EXECUTING = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]}
PATCHING = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}


def session() -> str:
    return f"agent:main:{os.urandom(4).hex()}"


async def told(kubeconfig: Path | str, state: Path, **sandbox: Any) -> str:
    """Call with these credentials, and return the error."""
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    gateway = app.start(config=None, state=str(state), environ=environ).gateway(configured("kubernetes", **sandbox))
    mark = state.parent / f"{state.name}.ran"
    try:
        result = await gateway.call(session(), "exec", {"command": f"touch {mark}"})
    finally:
        await gateway.close()
    assert result.error is not None
    assert (result.error.code, result.place) == ("sandbox_unavailable", "none")
    assert not mark.exists()
    return result.error.message


def login(cluster: Cluster, folder: Path, **user: Any) -> Path:
    """Write a kubeconfig for somebody else."""
    document = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    document["users"] = [{"name": "admin", "user": user}]
    path = folder / f"kubeconfig-{os.urandom(4).hex()}"
    path.write_text(yaml.safe_dump(document))
    return path


@contextmanager
def account(cluster: Cluster, *rules: dict[str, Any]) -> Iterator[str]:
    """Make a service account with these rights, and yield its name."""
    name = f"somebody-{os.urandom(4).hex()}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
    cluster.kubectl("create", "serviceaccount", name)
    try:
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(role))
        cluster.kubectl("create", "rolebinding", name, f"--role={name}", f"--serviceaccount=crabpot:{name}")
        yield name
    finally:
        cluster.kubectl("delete", "--ignore-not-found", f"serviceaccount/{name}", f"role/{name}", f"rolebinding/{name}")


def crabpot(kubeconfig: Path | str, folder: Path, *words: str, **sandbox: Any) -> subprocess.CompletedProcess[str]:
    config = folder / f"crabpot-{os.urandom(4).hex()}.json5"
    config.write_text(configured("kubernetes", **sandbox))
    argv = [sys.executable, "-m", "crabpot", "--config", str(config), "--state", str(folder / "state"), *words]
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, env=environ)


async def test_no_cluster_is_told_with_where_was_looked(cluster: Cluster, tmp_path: Path) -> None:
    nowhere = tmp_path / "none"
    said = await told(nowhere, tmp_path / "a")
    assert f"no cluster is known: there is no $KUBECONFIG ({nowhere}); log in to one" in said
    silent = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    silent["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    nowhere.write_text(yaml.safe_dump(silent))
    said = await told(nowhere, tmp_path / "b")
    assert "the cluster is away: https://127.0.0.1:1 does not answer: Connection refused" in said
    said = await told(cluster.kubeconfig, tmp_path / "c", kubernetes={"inet": "refuse", "context": "other"})
    assert 'has no context "other" (it has crabpot)' in said


async def test_rights_that_are_missing_are_told_by_name(cluster: Cluster, tmp_path: Path) -> None:
    with account(cluster, *ROLE) as name:
        poor = login(cluster, tmp_path, token=cluster.kubectl("create", "token", name).strip())
        said = await told(poor, tmp_path / "state")
        assert "lacks rights in the namespace crabpot: patch pods, create pods/exec, get pods/exec;" in said
        assert "crabpot render kubernetes" in said
        shown = crabpot(poor, tmp_path, "doctor", "--json").stdout
        (rights,) = [one for one in json.loads(shown) if (one["area"], one["name"]) == ("kubernetes", "rights")]
        assert rights["state"] == "problem"
        assert "patch pods, create pods/exec, get pods/exec" in rights["says"]


async def test_an_expired_token_is_told_and_one_that_was_renewed_is_taken(cluster: Cluster, tmp_path: Path) -> None:
    key = (Path(os.environ["CRABPOT_TEST_CLUSTER"]) / "run/pki/service-account.key").read_text()
    with account(cluster, *ROLE, EXECUTING, PATCHING) as name:
        fresh = cluster.kubectl("create", "token", name).strip()
        claims = jwt.decode(fresh, options={"verify_signature": False})
        past = {
            **claims,
            "iat": int(time.time()) - 7200,
            "nbf": int(time.time()) - 7200,
            "exp": int(time.time()) - 3600,
        }
        header = {"kid": jwt.get_unverified_header(fresh)["kid"]}
        expired = jwt.encode(past, key, algorithm="ES256", headers=header)
        said = await told(login(cluster, tmp_path, token=expired), tmp_path / "a")
        assert "the cluster does not take these credentials (Unauthorized)" in said
        assert "the token has expired, or is not its own; log in again" in said
        # The same claims with their own time are taken: the time alone is what was refused.
        kept = tmp_path / "token"
        kept.write_text(jwt.encode(claims, key, algorithm="ES256", headers=header))
        environ = {**os.environ, "KUBECONFIG": str(login(cluster, tmp_path, tokenFile=str(kept)))}
        gateway = app.start(config=None, state=str(tmp_path / "b"), environ=environ).gateway(configured("kubernetes"))
        try:
            assert (await gateway.call(session(), "exec", command="true")).error is None
        finally:
            await gateway.close()


async def test_another_level_of_pod_security_is_a_clause_with_its_mend(cluster: Cluster, tmp_path: Path) -> None:
    name = f"open-{os.urandom(4).hex()}"
    cluster.anywhere("create", "namespace", name)
    chosen = {"kubernetes": {"inet": "refuse", "namespace": name}}
    try:
        cluster.anywhere("label", "namespace", name, "pod-security.kubernetes.io/enforce=baseline")
        shown = json.loads(crabpot(cluster.kubeconfig, tmp_path, "explain", "--json", **chosen).stdout)
        (level,) = [one for one in shown["sandbox"]["clauses"] if one["name"] == "pod security"]
        assert level["state"] == "degraded"
        assert f"kubectl label namespace {name} pod-security.kubernetes.io/enforce=restricted" in level["how"]
        lines = json.loads(crabpot(cluster.kubeconfig, tmp_path, "doctor", "--json", **chosen).stdout)
        (line,) = [one for one in lines if (one["area"], one["name"]) == ("kubernetes", "pod security")]
        assert (line["state"], line["says"]) == ("warning", f"{name} enforces baseline, not restricted")
    finally:
        cluster.anywhere("delete", "--wait=false", "namespace", name)


async def test_a_node_without_room_is_told_in_the_schedulers_words(cluster: Cluster, tmp_path: Path) -> None:
    huge = {"memory": "9000g", "memoryReservation": "9000g"}
    said = await told(cluster.kubeconfig, tmp_path / "state", limits=huge)
    assert "no node takes it: 0/1 nodes are available: 1 Insufficient memory" in said
    assert "lower limits.memoryReservation" in said


async def answered(gateway: Gateway, key: str) -> bool:
    """Return whether a call was answered; what is told meanwhile is never anything else than that the cluster is away."""
    result = await gateway.call(key, "exec", {"command": "echo well"})
    if result.error is None:
        assert result.stdout == "well\n"
        return True
    assert result.error.code in {"sandbox_lost", "sandbox_unavailable"}, result.error
    return False


async def test_an_api_server_that_restarts_costs_the_calls_in_flight_and_no_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    gateway = open_gateway(configured("kubernetes"), str(tmp_path / "state"))
    key = session()
    try:
        assert await answered(gateway, key)
        flying = asyncio.create_task(gateway.call(key, "exec", {"command": "sleep 60"}))
        before = cluster.process("kube-apiserver")
        (pod,) = [one for one in cluster.pods() if key.rpartition(":")[2] in one["metadata"]["name"]]
        await until(lambda: "sleep" in cluster.programs(pod))
        os.kill(before, signal.SIGKILL)
        ended = await flying
        assert ended.error is not None
        assert ended.error.code == "sandbox_lost"
        await until(lambda: answered(gateway, key))
    finally:
        await gateway.close()


async def test_a_kubelet_that_stops_answering_is_told_with_its_node(cluster: Cluster, tmp_path: Path) -> None:
    gateway = open_gateway(configured("kubernetes"), str(tmp_path / "state"))
    key = session()
    kubelet = cluster.process("kubelet")
    try:
        assert await answered(gateway, key)
        os.kill(kubelet, signal.SIGSTOP)
        try:
            began = time.monotonic()
            # A live sandbox is on a stream through the kubelet, and a new one is never made.
            old, new = await asyncio.gather(
                gateway.call(key, "exec", {"command": "true", "timeout": 5}),
                gateway.call(session(), "exec", {"command": "true"}),
            )
        finally:
            os.kill(kubelet, signal.SIGCONT)
            cluster.anywhere("wait", "node/localhost", "--for=condition=Ready", "--timeout=100s")
        print(f"told after {time.monotonic() - began:.0f} s: {old.error}, {new.error}")
        assert old.error is not None
        assert new.error is not None
        assert new.error.code == "sandbox_unavailable"
        assert "the pod does not run on the node localhost after 120 s: is its kubelet running" in new.error.message
        await until(lambda: answered(gateway, key), within_s=180)
    finally:
        await gateway.close()
