"""Which pods there are: one for each scope, spares that wait, and nothing of a gateway that is gone."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.support.suites import configured, open_gateway
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.gateway import Gateway
    from tests.cluster.conftest import Cluster

MANAGED = {"app.kubernetes.io/managed-by": "crabpot"}
# What two minutes without a renewal and the minute of a busy node come to.
REAPED_S = 180.0


def session() -> str:
    return f"agent:main:{os.urandom(4).hex()}"


async def user(gateway: Gateway, key: str) -> int:
    """Return the user id inside, by which a pod is known: no two of a gateway's have the same."""
    result = await gateway.call(key, "exec", command="id -u")
    assert result.error is None, result.error
    return int(result.stdout)


def own(cluster: Cluster, uid: int) -> dict[int, str]:
    """Return the names of all pods of the gateway that has a pod with this user id, by theirs."""
    pods = {one["spec"]["securityContext"]["runAsUser"]: one["metadata"] for one in cluster.pods("crabpot.dev/scope")}
    gateway = pods[uid]["labels"]["crabpot.dev/gateway"]
    return {one: found["name"] for one, found in pods.items() if found["labels"]["crabpot.dev/gateway"] == gateway}


async def test_a_scope_has_one_pod_however_many_calls_come_at_once(cluster: Cluster, tmp_path: Path) -> None:
    gateway = open_gateway(configured("kubernetes", scope="agent"), str(tmp_path / "state"))
    try:
        seen = set(await asyncio.gather(*(user(gateway, session()) for _ in range(4))))
        assert len(seen) == 1
        # The pod that was looked at first is gone.
        await until(lambda: set(own(cluster, *seen)) == seen)
    finally:
        await gateway.close()


async def test_a_spare_pod_waits_and_is_the_next_sessions(cluster: Cluster, tmp_path: Path) -> None:
    gateway = open_gateway(configured("kubernetes", warm=1), str(tmp_path / "state"))
    try:
        gateway.execution.warm_up(gateway.settings)
        await until(lambda: gateway.execution.opener.spares.count() == 1)
        waiting = {one["spec"]["securityContext"]["runAsUser"] for one in cluster.pods("crabpot.dev/scope")}
        taken = await user(gateway, session())
        assert taken in waiting
        # Another is opened in its place.
        await until(lambda: own(cluster, taken).keys() - {taken})
    finally:
        await gateway.close()
    assert taken not in {one["spec"]["securityContext"]["runAsUser"] for one in cluster.pods("crabpot.dev/scope")}


def lease(name: str, gateway: str, renewed: datetime) -> dict[str, Any]:
    metadata = {"name": name, "labels": {**MANAGED, "crabpot.dev/gateway": gateway}}
    spec = {"leaseDurationSeconds": 60, "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def kept(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


def pod(name: str, labels: dict[str, str]) -> dict[str, Any]:
    walls = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    around = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {"name": "none", "image": "crabpot-sandbox:latest", "securityContext": walls}
    # No node takes it: what is reaped is an object, and need not run.
    spec = {"nodeSelector": {"pool": "none"}, "securityContext": around, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


async def test_what_a_gateway_left_that_is_gone_is_removed_by_the_next_and_nothing_else(
    cluster: Cluster, tmp_path: Path
) -> None:
    word, now = os.urandom(4).hex(), datetime.now(UTC)
    gone, alive = f"gone{word}", f"alive{word}"
    theirs, others = {**MANAGED, "crabpot.dev/gateway": gone}, {**MANAGED, "crabpot.dev/gateway": alive}
    left = [f"lease/left-{word}", f"configmap/left-{word}", f"pod/left-{word}"]
    stays = [f"lease/stays-{word}", f"configmap/lives-{word}", f"configmap/nobodys-{word}", f"configmap/other-{word}"]
    objects = [
        lease(f"left-{word}", gone, now - timedelta(minutes=10)),
        kept(f"left-{word}", theirs),
        pod(f"left-{word}", theirs),
        lease(f"stays-{word}", alive, now + timedelta(minutes=10)),
        kept(f"lives-{word}", others),
        # Of the gone gateway by one label, and not ours by the other; and ours, of no gateway.
        kept(f"nobodys-{word}", {"crabpot.dev/gateway": gone}),
        kept(f"other-{word}", MANAGED),
    ]
    cluster.kubectl("apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, objects)))

    async def reaped() -> bool:
        gateway = open_gateway(configured("kubernetes"), str(tmp_path / "state"))
        try:
            await user(gateway, session())
        finally:
            await gateway.close()
        there = cluster.kubectl("get", *left, *stays, "--ignore-not-found", "-o", "name").split()
        assert len([one for one in there if f"/left-{word}" not in one]) == len(stays)
        return len(there) == len(stays)

    try:
        # What is younger than two minutes may belong to a gateway whose lease was not seen yet.
        assert not await reaped()
        await until(reaped, within_s=REAPED_S)
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "--wait=false", *left, *stays)
