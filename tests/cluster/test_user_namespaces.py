"""`hostUsers: false`: a pod in a user namespace of its own, whose ids are nobody's on the node."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from crabpot.decide import placement, sessions
from tests.cluster import attacking
from tests.support import pods
from tests.support.suites import open_gateway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.conftest import Cluster

# The ids of the node that a pod is given are none of those that the node uses itself.
_FIRST_FREE = 65536
ATTACKED = ("privileges", "processes", "filesystem")


def configured(**kubernetes: object) -> str:
    chosen = {"inet": "refuse", "hostUsers": False, **kubernetes}
    return json.dumps({"agents": {"defaults": {"sandbox": {"backend": "kubernetes", "kubernetes": chosen}}}})


async def test_a_pod_has_its_own_user_namespace_and_the_clause_says_what_it_shares(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Seen from inside, by the clause, and from the node: no process of the pod is in the node's namespace."""
    session = f"agent:main:{os.urandom(4).hex()}"
    gateway = open_gateway(configured(), str(tmp_path / "state"))
    try:
        result = await gateway.call(
            session, "exec", command="cat /proc/self/uid_map; id -u; touch file; stat -c %u file"
        )
        assert result.error is None, result.error
        inside, outside, count, user, owner = (int(word) for word in result.stdout.split())
        assert (inside, count) == (0, 65536)
        assert outside >= _FIRST_FREE
        assert user == owner
        assert 0 < user < count
        (pod,) = [one for one in cluster.pods() if session.rpartition(":")[2] in one["metadata"]["name"]]
        agent = gateway.settings.agent("main")
        live = await gateway.execution.acquire(agent, placement.decide(sessions.parse(session), agent).answer)
        table = {one.name: one for one in live.clauses}
        assert table["limits.pids"].state == "enforced"
        waiting, runner = cluster.processes(pod)
        # On a node with cgroup v1 its control groups are in the node's namespace.
        shares = os.readlink(f"/proc/{runner}/ns/cgroup") == os.readlink("/proc/self/ns/cgroup")
        assert table["namespaces"].state == ("degraded" if shares else "enforced")
        assert "the node's: user" not in table["namespaces"].how
        for pid in (waiting, runner):
            assert os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user")
            assert os.stat(f"/proc/{pid}").st_uid in (0, outside + user)
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                (ids,) = [line.split()[1:] for line in file if line.startswith("Uid:")]
            assert set(ids) == {str(outside + user)}
    finally:
        await gateway.close()


async def test_two_pods_have_no_id_of_the_node_in_common(tmp_path: Path) -> None:
    gateway = open_gateway(configured(), str(tmp_path / "state"))
    try:
        found = set()
        for _ in range(2):
            key = f"agent:main:{os.urandom(4).hex()}"
            result = await gateway.call(key, "exec", command="cat /proc/self/uid_map")
            assert result.error is None, result.error
            found.add(int(result.stdout.split()[1]))
        first, second = sorted(found)
        assert second - first >= 65536
    finally:
        await gateway.close()


async def test_attacks_on_a_pod_with_its_own_user_namespace_do_not_succeed() -> None:
    """The pods of the escape suite have none: what is excused there by a clause is not excused here."""
    found = await attacking.findings(configured(), only=ATTACKED)
    assert [one for one in found if one["state"] == "broken"] == []
    assert {one["claim"] for one in found if one["state"] not in {"held", "degraded"}} <= pods.CLAIMS.keys()
