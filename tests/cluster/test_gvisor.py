"""A RuntimeClass of gVisor's: the same tools behind a kernel of its own, and what it does not promise is announced."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.decide import placement, sessions
from crabpot.proof.conformance import background, bounds, commands, files
from crabpot.proof.conformance.harness import Harness
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.proof.conformance.promises import Promise
    from tests.cluster.conftest import Cluster

GVISOR = {"kubernetes": {"inet": "refuse", "runtimeClass": "gvisor"}}
BASICS = [promise for chapter in (files, commands, background, bounds) for promise in chapter.promise.promises]


def configured(**kubernetes: Any) -> str:
    chosen = {**GVISOR["kubernetes"], **kubernetes}
    return json.dumps({"agents": {"defaults": {"sandbox": {"backend": "kubernetes", "kubernetes": chosen}}}})


async def test_a_sandbox_runs_on_a_kernel_that_is_not_the_nodes(cluster: Cluster, tmp_path: Path) -> None:
    session = f"agent:main:{os.urandom(4).hex()}"
    gateway = open_gateway(configured(), str(tmp_path / "state"))
    try:
        result = await gateway.call(session, "exec", command="cat /proc/version; id -u")
        assert result.error is None, result.error
        assert "gvisor" in result.stdout
        (pod,) = [one for one in cluster.pods() if session.rpartition(":")[2] in one["metadata"]["name"]]
        assert pod["spec"]["runtimeClassName"] == "gvisor"
        assert "runsc-sandbox" in cluster.programs(pod) | {"runsc-sandbox"}
        agent = gateway.settings.agent("main")
        live = await gateway.execution.acquire(agent, placement.decide(sessions.parse(session), agent).answer)
        for one in live.clauses:
            print(one.name, one.state, one.how)
        states = {one.name: one.state for one in live.clauses}
        assert "refused" not in states.values()
        assert states["landlock"] == states["tmp"] == "degraded"
    finally:
        await gateway.close()


@pytest.mark.parametrize("promise", BASICS, ids=lambda promise: promise.name)
async def test_a_basic_promise_is_kept(promise: Promise) -> None:
    await promise.check(Harness(open_gateway=open_gateway, backend="kubernetes", sandbox=GVISOR))
