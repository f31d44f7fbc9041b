"""What a live pod reports is held to its spec, and the table says how each clause is kept."""

from __future__ import annotations

from typing import Any

import pytest

from crabpot.backends.kubernetes import clauses, inspection, remedy
from crabpot.backends.kubernetes.errors import ClusterAway, ClusterRefused
from crabpot.backends.kubernetes.facts import Facts
from crabpot.settings import Kubernetes
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import Mount, SandboxSpec, User
from tests.support.specs import make_spec

USER = User(uid=1000, gid=1000)
FACTS = Facts(server="https://a:6443", version="v1.35.4", namespace="crabpot", level="restricted")


def specified(**more: Any) -> SandboxSpec:
    return make_spec(backend="kubernetes", **more)


def report(**more: Any) -> dict[str, Any]:
    said: dict[str, Any] = {
        "uid": 1000,
        "gid": 1000,
        "groups": [1000],
        "capabilities": ["0000000000000000"] * 5,
        "privileges": "1",
        "seccomp": "1",
        "filters": "2",
        "mounts": {path: ["ro", "x"] for path in ("/", "/crabpot", "/etc/passwd", "/tmp", "/workspace")},
        "account": False,
        "inet": False,
        "processes": 2,
        "users": ["0", "0", "4294967295"],
        "control_groups": True,
        "landlock": 6,
        "noexec": True,
        "limits": {"memory": str(2 * 1024**3), "cpu": "200000"},
        "counted": True,
        "kernel": "6.18",
    }
    return {**said, **more}


def states(spec: SandboxSpec, **more: Any) -> dict[str, str]:
    found = inspection.read(report(**more), user=USER, node="n", spec=spec)
    table = clauses.clauses(spec, clauses.Findings(facts=FACTS, report=found))
    return {one.name: one.state for one in table}


def test_a_pod_that_is_as_asked_has_no_problem() -> None:
    assert list(inspection.problems(report(), user=USER, spec=specified(kubernetes=Kubernetes(inet="refuse")))) == []


@pytest.mark.parametrize(
    ("more", "clause"),
    [
        ({"uid": 0}, "user"),
        ({"groups": [0]}, "user"),
        ({"capabilities": ["0000000000000000", "0000000000000400"]}, "capabilities"),
        ({"capabilities": None}, "capabilities"),
        ({"privileges": "0"}, "no-new-privileges"),
        ({"filters": "1"}, "seccomp"),
        ({"filters": None}, "seccomp"),
        ({"seccomp": None, "filters": None, "mode": "0"}, "seccomp"),
        ({"seccomp": None, "filters": None}, "seccomp"),
        ({"mounts": {"/": ["rw"]}}, "filesystem"),
        ({"account": True}, "filesystem"),
        ({"inet": True}, "network"),
        ({"processes": 3}, "namespaces"),
    ],
)
def test_each_wall_that_is_missing_is_noticed(more: dict[str, Any], clause: str) -> None:
    spec = specified(kubernetes=Kubernetes(inet="refuse"))
    assert clause in {name for name, _ in inspection.problems(report(**more), user=USER, spec=spec)}


def test_what_was_seen_is_what_the_table_says() -> None:
    spec = specified(kubernetes=Kubernetes(inet="refuse"))
    seen = states(spec)
    assert (seen["seccomp"], seen["capabilities"], seen["network"], seen["landlock"]) == ("enforced",) * 4
    # Dodged through the loader.
    assert seen["tmp"] == "degraded"
    assert seen["namespaces"] == "degraded"
    assert states(spec, users=["0", "65536", "65536"])["namespaces"] == "enforced"
    assert states(spec, users=["0", "65536", "65536"], control_groups=False)["namespaces"] == "degraded"
    assert states(spec, limits={"memory": "9223372036854771712", "cpu": "-1"})["limits.memory"] == "degraded"
    assert states(spec, landlock=0)["landlock"] == "degraded"
    assert seen["limits.pids"] == "enforced"
    assert states(spec, counted=False)["limits.pids"] == "degraded"
    # A user namespace is believed of the node's kernel alone.
    assert states(spec, gvisor=True, users=["0", "65536", "65536"])["namespaces"] == "degraded"


def test_a_kernel_that_counts_no_filters_is_asked_for_its_mode() -> None:
    spec = specified(kubernetes=Kubernetes(inet="refuse"))
    uncounted = report(seccomp=None, filters=None, mode="2")
    assert list(inspection.problems(uncounted, user=USER, spec=spec)) == []


@pytest.mark.parametrize(
    ("more", "clause", "way_out"),
    [
        ({"private": False, "workspace": "/srv/w"}, "workspace", "crabpot cp"),
        ({"mounts": (Mount(source="/srv/a", target="/a", access="ro"),)}, "binds", "image"),
        ({"network": NetworkSpec(kind="host")}, "network", '"none"'),
        ({"network": NetworkSpec(kind="internet"), "kubernetes": Kubernetes(inet="refuse")}, "network", '"policy"'),
    ],
)
def test_what_no_cluster_could_keep_is_refused_with_the_way_out(
    more: dict[str, Any], clause: str, way_out: str
) -> None:
    table = clauses.clauses(specified(**more), clauses.Findings(facts=FACTS))
    refused = {one.name: one.how for one in table if one.state == "refused"}
    assert set(refused) == {clause}
    assert way_out in refused[clause]


def test_a_clause_that_a_live_pod_did_not_keep_is_refused() -> None:
    found = clauses.Findings(facts=FACTS, refused=(("network", "a packet got out"),))
    table = {one.name: one for one in clauses.clauses(specified(), found)}
    assert (table["network"].state, table["network"].how) == ("refused", "a packet got out")


def test_a_namespace_of_another_level_is_told() -> None:
    weak = Facts(server="s", version="v", namespace="pots", level="privileged")
    table = {one.name: one for one in clauses.clauses(specified(), clauses.Findings(facts=weak))}
    assert table["pod security"].state == "degraded"
    assert "kubectl label namespace pots" in table["pod security"].how


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClusterAway("https://a does not answer"), "is its API server up"),
        (ClusterRefused(401, "Unauthorized", "Unauthorized"), "log in again"),
        (ClusterRefused(403, "Forbidden", 'User "x" cannot create resource "pods"'), "crabpot render kubernetes"),
        (ClusterRefused(403, "Forbidden", "exceeded quota: crabpot"), "raise its quota"),
        (ClusterRefused(404, "NotFound", 'namespaces "crabpot" not found'), "kubectl create namespace crabpot"),
    ],
)
def test_what_the_cluster_refuses_is_told_with_what_to_do(error: Any, said: str) -> None:
    assert said in str(remedy.explain(error, Kubernetes()))


def test_a_pod_that_will_not_run_says_why() -> None:
    def waiting(reason: str) -> dict[str, Any]:
        state = {"waiting": {"reason": reason, "message": "no such host"}}
        return {"status": {"containerStatuses": [{"image": "pot:1", "state": state}]}}

    assert "pot:1 cannot be pulled" in str(remedy.stuck(waiting("ErrImagePull")))
    assert remedy.stuck(waiting("ContainerCreating")) is None
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    assert "no node takes it: 0/1 nodes" in str(remedy.stuck({"status": {"conditions": [condition]}}))
    assert "kubelet" in remedy.silent({"spec": {"nodeName": "n1"}}, 9)
    assert "scheduler" in remedy.silent({}, 9)
