"""Sandboxes behind a NetworkPolicy that holds: listed places and servers inside are reached through the gateway, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.decide import placement, sessions
from crabpot.proof.conformance.harness import Harness
from crabpot.proof.conformance.run import PROMISES
from tests.cluster import attacking
from tests.cluster.enforcing import enforced
from tests.support import pods
from tests.support.suites import open_gateway
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crabpot.proof.conformance.promises import Promise
    from tests.cluster.conftest import Cluster

POLICY = {"kubernetes": {"inet": "policy"}}
# What the other suites see not to be kept, or cannot attack, since their pods have no internet sockets.
NEEDING = [promise for promise in PROMISES if pods.PROMISES.get(promise.name) == pods.INET]
ATTACKS = [name for name, reason in pods.CLAIMS.items() if reason == pods.INET]
# From a pod: the API server at its service's address and at two of the node's. Without the policy each is reached.
_REACHING = """python3 -c '
import socket
for place in (("10.124.0.1", 443), ("10.123.0.1", 36443), ("10.125.0.2", 36443)):
    try:
        socket.create_connection(place, 2)
        print("reached")
    except TimeoutError:
        print("nothing")
    except ConnectionRefusedError:
        print("turned back")
    except OSError as error:
        print(error)
'"""


@pytest.fixture(scope="module", autouse=True)
def _enforced(cluster: Cluster) -> Iterator[None]:
    with enforced(cluster):
        yield


def configured(**sandbox: Any) -> str:
    return json.dumps({"agents": {"defaults": {"sandbox": {"backend": "kubernetes", **POLICY, **sandbox}}}})


async def test_a_policy_that_holds_is_taken_and_no_packet_passes(cluster: Cluster, tmp_path: Path) -> None:
    session = f"agent:main:{os.urandom(4).hex()}"
    gateway = open_gateway(configured(), str(tmp_path / "state"))
    try:
        result = await gateway.call(session, "exec", command=_REACHING)
        assert (result.stdout, result.error) == ("turned back\n" * 3, None)
        # The positive control lives beside it, without the policy's label.
        assert len(cluster.pods("crabpot.dev/control")) == 1
        agent = gateway.settings.agent("main")
        live = await gateway.execution.acquire(agent, placement.decide(sessions.parse(session), agent).answer)
        (network,) = [one for one in live.clauses if one.name == "network"]
        assert (network.state, "was seen to hold on the pod" in network.how) == ("enforced", True)
    finally:
        await gateway.close()
    assert cluster.pods("crabpot.dev/control") == []


@pytest.mark.parametrize("promise", NEEDING, ids=lambda promise: promise.name)
async def test_what_needs_internet_sockets_is_kept(promise: Promise) -> None:
    """Each of its gateways makes a control first, so it gets more time than a promise has elsewhere."""
    async with asyncio.timeout(300):
        await promise.check(Harness(open_gateway=open_gateway, backend="kubernetes", sandbox=POLICY))


async def test_attacks_that_need_internet_sockets_do_not_succeed() -> None:
    found = await attacking.findings(configured(), only=[*ATTACKS, "network"])
    assert {one["claim"] for one in found} >= set(ATTACKS)
    assert [one for one in found if one["state"] not in {"held", "degraded"}] == []


async def test_a_server_in_a_pod_is_reached_at_a_port_of_this_machine(tmp_path: Path) -> None:
    session = f"agent:main:{os.urandom(4).hex()}"
    gateway = open_gateway(configured(ports=[3000]), str(tmp_path / "state"))
    try:
        await gateway.call(session, "write", path="page", content="from the pod")
        serving = "python3 -m http.server --bind 127.0.0.1 3000"
        await gateway.call(session, "exec", command=serving, background=True)
        agent = gateway.settings.agent("main")
        live = await gateway.execution.acquire(agent, placement.decide(sessions.parse(session), agent).answer)
        assert live.ports is not None
        url = f"http://127.0.0.1:{live.ports.opened[3000]}/page"

        def read() -> bytes:
            try:
                with urllib.request.urlopen(url, timeout=20) as reply:
                    content: bytes = reply.read()
                    return content
            except OSError:
                return b""

        assert await until(lambda: asyncio.to_thread(read)) == b"from the pod"
    finally:
        await gateway.close()
