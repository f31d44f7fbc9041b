"""The rendered gateway: what kubectl would apply is whole, restricted, and has the least rights."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from crabpot.artefacts import kubernetes
from crabpot.artefacts.kubernetes import Deployed
from crabpot.backends.kubernetes import rights
from crabpot.config.document import Object
from crabpot.config.reading import parse
from crabpot.settings import Kubernetes, Size, Storage, Toleration
from tests.support.pod_security import violations


def rendered(**settings: Any) -> dict[tuple[str, str], dict[str, Any]]:
    text = kubernetes.file(Deployed(settings=Kubernetes(**settings)))
    return {(one["kind"], one["metadata"].get("namespace", "")): one for one in yaml.safe_load_all(text)}


def test_every_part_is_there_and_in_its_namespace() -> None:
    kinds = {key for key in rendered() if key[0] != "Namespace"}
    assert kinds == {
        *((kind, "crabpot") for kind in ("ResourceQuota", "Role", "RoleBinding", "NetworkPolicy")),
        *(
            (kind, "crabpot-gateway")
            for kind in (
                "ServiceAccount NetworkPolicy ConfigMap PersistentVolumeClaim Service PodDisruptionBudget Deployment"
            ).split()
        ),
    }


@pytest.mark.parametrize("settings", [{}, {"inet": "refuse"}, {"storage": Storage(size=Size(1024))}])
def test_the_role_grants_what_sandboxes_need_and_nothing_else(settings: dict[str, Any]) -> None:
    granted = {
        (group, resource, verb)
        for rule in rendered(**settings)["Role", "crabpot"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    needed = {
        (group, f"{kind}/{sub}" if sub else kind, verb)
        for group, kind, sub, verbs in rights.needed(Kubernetes(**settings))
        for verb in verbs
    }
    assert granted == {*needed, ("", "namespaces", "get")}
    assert not any("*" in part or part == "secrets" for row in granted for part in row)


def test_the_gateway_is_restricted_serves_tls_alone_and_is_probed_under_its_own_name() -> None:
    pod = rendered()["Deployment", "crabpot-gateway"]["spec"]["template"]["spec"]
    assert violations(pod) == []
    gateway = pod["containers"][0]
    assert gateway["command"][-6:-3] == ["--listen", "0.0.0.0:8443", "--tls-cert"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = gateway[probe]["httpGet"]
        assert (asked["scheme"], asked["httpHeaders"][0]["value"]) == ("HTTPS", "crabpot.crabpot-gateway.svc")


def test_its_configuration_says_what_the_session_s_did() -> None:
    settings = {"inet": "refuse", "tolerations": (Toleration(key="pool", value="x"),), "node_selector": {"a": "b"}}
    text = rendered(**settings)["ConfigMap", "crabpot-gateway"]["data"]["crabpot.json5"]
    assert isinstance(parse(text), Object)
    assert '"inet": "refuse"' in text
    assert '"nodeSelector"' in text
    assert '"tolerations"' in text
