"""A spec as the objects of a cluster: restricted, mute, and marked with whose it is."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.backends.kubernetes import bundle, naming, pods, remedy, render
from crabpot.settings import Kubernetes, Size, Storage, Toleration
from crabpot.spec.spec import Mount, SandboxSpec, User
from tests.support.pod_security import violations
from tests.support.specs import make_spec

if TYPE_CHECKING:
    from pathlib import Path

USER = User(uid=1234, gid=1235)


def specified(**more: Any) -> SandboxSpec:
    return make_spec(backend="kubernetes", **more)


def pod(spec: SandboxSpec) -> dict[str, Any]:
    plan = render.PodPlan(name="p", gateway="g1", owner=(), user=USER, bundle=bundle.make(spec))
    made = render.pod(spec, plan)
    json.dumps(made)
    return made


@pytest.mark.parametrize(
    "settings",
    [
        Kubernetes(),
        Kubernetes(inet="refuse", host_users=False, runtime_class="gvisor"),
        Kubernetes(storage=Storage(size=Size(1024), class_="fast"), tolerations=(Toleration(operator="Exists"),)),
    ],
)
def test_a_pod_satisfies_pod_security_restricted(settings: Kubernetes) -> None:
    assert violations(pod(specified(kubernetes=settings))["spec"]) == []


def test_what_restricted_forbids_is_seen_by_the_check_itself() -> None:
    made = pod(specified())["spec"]
    made["containers"][0]["securityContext"]["capabilities"] = {"add": ["SYS_ADMIN"]}
    made["hostPID"] = True
    assert violations(made) == ["hostPID", "sandbox: capabilities.drop", "sandbox: capabilities.add"]


def test_nothing_of_the_cluster_is_given_to_a_pod() -> None:
    made = pod(specified())["spec"]
    assert made["automountServiceAccountToken"] is False
    assert made["enableServiceLinks"] is False
    assert made["dnsPolicy"] == "None"
    assert made["containers"][0]["env"] == []
    assert made["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert made["securityContext"]["runAsUser"] == 1234


def test_the_main_process_only_waits_and_both_it_and_the_pod_have_a_deadline() -> None:
    made = pod(specified())["spec"]
    command = made["containers"][0]["command"]
    assert command[-3:] == ["wait", str(render.START_S), str(render.DEADLINE_S)]
    assert (made["activeDeadlineSeconds"], made["restartPolicy"]) == (render.DEADLINE_S, "Never")
    assert "stdin" not in made["containers"][0]
    assert render.exec_command()[-1] == "run"


def test_limits_requests_and_every_writable_place_are_sized() -> None:
    spec = specified()
    made = pod(spec)["spec"]
    resources = made["containers"][0]["resources"]
    assert resources["limits"]["memory"] == str(int(spec.limits.memory))
    assert resources["limits"]["cpu"] == "2000m"
    assert set(resources["requests"]) == {"memory", "cpu", "ephemeral-storage"}
    empty = [one["emptyDir"] for one in made["volumes"] if "emptyDir" in one]
    assert len(empty) == 4
    assert all(int(one["sizeLimit"]) > 0 for one in empty)


def test_labels_say_which_scope_which_spec_and_whose() -> None:
    spec = specified(scope_key="agent:main:x", name="crabpot-agent-main-x-12345678")
    labels = pod(spec)["metadata"]["labels"]
    assert labels[naming.SCOPE] == "crabpot-agent-main-x-12345678"
    assert spec.hash.startswith(labels[naming.SPEC])
    assert labels[naming.GATEWAY] == "g1"
    assert all(
        len(value) <= 63 and re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", value)
        for value in labels.values()
    )


def test_a_claim_is_of_the_scope_and_outlives_its_gateway() -> None:
    spec = specified(kubernetes=Kubernetes(storage=Storage(size=Size(5 * 1024**3), class_="fast")))
    claim = render.claim(spec)
    volume = next(one for one in pod(spec)["spec"]["volumes"] if one["name"] == "workspace")
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert naming.GATEWAY not in claim["metadata"]["labels"]


def test_the_policy_denies_all_to_sandboxes_and_nothing_to_the_control() -> None:
    spec = specified()
    plan = render.PodPlan(name="c", gateway="g1", owner=(), user=USER, bundle=bundle.make(spec))
    policy = render.policy("crabpot")["spec"]
    selected = policy["podSelector"]["matchExpressions"][0]["key"]
    assert "ingress" not in policy
    assert "egress" not in policy
    assert selected in pod(spec)["metadata"]["labels"]
    control = render.control(spec, plan)
    assert selected not in control["metadata"]["labels"]
    assert violations(control["spec"]) == []


@pytest.mark.parametrize(
    "name", ["crabpot-agent-main-x-12345678", "crabpot-a_b.c--12345678", f"crabpot-{'z' * 32}-12345678"]
)
def test_names_are_what_a_cluster_takes(name: str) -> None:
    made = naming.pod(name, "abc123")
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", made)
    assert made.endswith("12345678-abc123")


def test_the_bundle_holds_the_runner_whole_and_fits_into_one_object() -> None:
    made = bundle.make(specified(host_commands=("git",)))
    kept = made.as_map("g1", [])
    assert sum(len(base64.b64decode(one)) for one in kept["binaryData"].values()) < 1024**2
    assert all(re.fullmatch(r"[-._a-zA-Z0-9]+", key) for key in kept["binaryData"])
    items = {one["path"]: one for one in made.as_volume("g1")["configMap"]["items"]}
    assert {one["key"] for one in items.values()} == set(kept["binaryData"])
    assert items["bin/git"]["mode"] == 0o555
    assert {"boot.py", "runner/core/server.py", "filter.x86_64", "filter.aarch64"} <= items.keys()
    assert kept["immutable"] is True


def test_the_filter_without_internet_is_another_bundle() -> None:
    spec = specified()
    other = replace(spec, kubernetes=Kubernetes(inet="refuse"))
    assert bundle.make(spec).digest != bundle.make(other).digest
    assert bundle.make(spec).digest == bundle.make(replace(spec, scope_key="b", name="b")).digest


def test_no_two_pods_of_a_gateway_share_a_user() -> None:
    """A key can be made whose digest comes to another's uid: RLIMIT_NPROC would count both as one."""
    spec = specified(scope_key="agent:one")
    first = pods.user_of(spec)
    second = pods.user_of(spec, [first.uid])
    assert pods.user_of(spec) == first
    assert second.uid == first.uid + 1 == second.gid
    assert pods.user_of(spec, [first.uid, second.uid]).uid not in (first.uid, second.uid)
    # The files of a claim are its uid's.
    claimed = replace(spec, kubernetes=Kubernetes(storage=Storage(size=Size(1 << 30))))
    assert pods.user_of(claimed, [first.uid]) == first


def test_a_node_without_user_namespaces_is_told_from_one_that_is_slow() -> None:
    waiting = {"conditions": [{"type": "PodReadyToStartContainers", "status": "False"}], "phase": "Pending"}
    told = remedy.without_namespace({"spec": {"hostUsers": False, "nodeName": "n1"}, "status": waiting})
    assert told is not None
    assert "the node n1 makes no user namespace" in told
    assert remedy.without_namespace({"spec": {"nodeName": "n1"}, "status": waiting}) is None
    assert remedy.without_namespace({"spec": {"hostUsers": False}, "status": {"conditions": []}}) is None


def test_the_authority_of_one_sandbox_is_in_a_bundle_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"PEM")
    shown = Mount(source=str(tmp_path / "a"), target="/crabpot/authority.pem", access="ro")
    plain, own = bundle.make(specified()), bundle.make(specified(certificates=(shown,)))
    assert own.files["authority.pem"] == b"PEM"
    assert own.files.keys() - plain.files.keys() == {"authority.pem"}
    assert naming.bundle("g", own.digest) != naming.bundle("g", plain.digest)
    items = own.as_volume("g")["configMap"]["items"]
    assert {"key": "authority.pem", "path": "authority.pem"} in items
