"""Gateway, kubelet, runner, container, pod and API server are killed at random during hundreds of calls: no wrong answer, nothing left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.support.chaos import SESSION, Callers
from tests.support.suites import configured, open_gateway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.conftest import Cluster

CALLS = int(os.environ.get("CRABPOT_TEST_CALLS", "500"))
# Every so many answers something dies.
EVERY = 25
DEATHS = ("container", "kubelet", "gateway", "runner", "pod", "kube-apiserver")
LONGEST_S = 600.0 + 2 * CALLS


def own(cluster: Cluster) -> list[dict[str, Any]]:
    """List the pods of this test's sessions: others may use the cluster."""
    return [pod for pod in cluster.pods() if f"main-{SESSION}" in pod["metadata"]["name"]]


async def strike(what: str, chance: random.Random, callers: Callers, cluster: Cluster) -> None:
    """Kill one of a kind; init starts the kubelet and the API server again, as a node's would."""
    if what == "gateway":
        await callers.kill()
    elif what.startswith("kube"):
        with suppress(AssertionError, ProcessLookupError):
            os.kill(await asyncio.to_thread(cluster.process, what), signal.SIGKILL)
    else:
        # An API server that is away has no pods to choose from.
        with suppress(AssertionError, IndexError, ProcessLookupError):
            victim = chance.choice(await asyncio.to_thread(own, cluster))
            if what == "pod":
                name = victim["metadata"]["name"]
                await asyncio.to_thread(cluster.kubectl, "delete", "pod", name, "--grace-period=0", "--force")
            else:
                found = cluster.processes(victim)
                os.kill(found[0 if what == "container" else -1], signal.SIGKILL)


def test_whoever_is_killed_during_hundreds_of_calls_no_answer_is_wrong(cluster: Cluster, tmp_path: Path) -> None:
    asyncio.run(_run(cluster, tmp_path))


async def _run(cluster: Cluster, folder: Path) -> None:
    chance, deaths = random.Random(11), 0
    environ = {"KUBECONFIG": cluster.kubeconfig, "HOME": str(folder)}
    # A private folder is an emptyDir here: it dies with its pod.
    callers = Callers(configured("kubernetes"), folder / "state", environ, durable=False)
    until = time.monotonic() + LONGEST_S
    try:
        while len(callers.answers) < CALLS:
            assert time.monotonic() < until, f"only {len(callers.answers)} answers in {LONGEST_S:g} s"
            assert callers.process.poll() is None, "the gateway ended by itself"
            if len(callers.answers) >= (deaths + 1) * EVERY:
                await strike(DEATHS[deaths % len(DEATHS)], chance, callers, cluster)
                deaths += 1
            await asyncio.sleep(chance.uniform(0.0, 0.05))
    finally:
        ended = await asyncio.to_thread(callers.end)
    print(f"{len(callers.answers)} answers, {callers.right} right, {len(callers.wrong)} wrong, {deaths} deaths")
    assert ended == 0
    assert callers.wrong == []
    assert callers.right > CALLS / 2, f"{callers.right} of {len(callers.answers)} answers, {deaths} deaths"
    await _recovers(cluster, folder)


async def _recovers(cluster: Cluster, folder: Path) -> None:
    """The next gateway over the same state works; pods of the killed ones end by themselves."""
    made = open_gateway(configured("kubernetes"), str(folder / "state"))
    try:
        result = await made.call("agent:main:chaos-0", "exec", {"command": "echo well"})
        assert (result.stdout, result.error) == ("well\n", None)
    finally:
        await made.close()
    until = time.monotonic() + 300
    while left := [pod for pod in await asyncio.to_thread(own, cluster) if _lives(pod)]:
        assert time.monotonic() < until, [pod["metadata"]["name"] for pod in left]
        await asyncio.sleep(1)


def _lives(pod: dict[str, dict[str, object]]) -> bool:
    return pod["status"].get("phase") in ("Running", "Pending")
