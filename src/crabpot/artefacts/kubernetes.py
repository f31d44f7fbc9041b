"""A gateway in a cluster, and the namespace of its sandboxes: what is applied for it, with the least rights. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.artefacts import yaml
from crabpot.backends.kubernetes import naming, render, rights

if TYPE_CHECKING:
    from crabpot.settings import Kubernetes

_NAME = "crabpot"
_PORT = 8443
_USER = 10001
_HOME = "/var/lib/crabpot"
_CONFIG, _TLS = "/etc/crabpot", "/etc/crabpot-tls"
_LEVELS = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
# Beside the sandboxes: what a probe of the network needs, and pods that are just ending.
_SPARE_PODS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What the gateway's objects are about."""

    settings: Kubernetes
    image: str = "crabpot:latest"
    """Of the gateway itself: Python with `crabpot[kubernetes]` installed."""
    sandboxes: int = 100
    claim: str | None = "10Gi"
    """The size of the volume that keeps the state, the audit log in it; None means it ends with its pod."""
    secret: str = "crabpot-tls"  # noqa: S105  the name of one
    """Of type kubernetes.io/tls."""

    @property
    def home(self) -> str:
        """Return the namespace of the gateway: its secrets are not where its sandboxes are."""
        return f"{self.settings.namespace}-gateway"

    @property
    def host(self) -> str:
        """Return the name that it is reached by in the cluster, which its certificate must have."""
        return f"{_NAME}.{self.home}.svc"


def file(deployed: Deployed) -> str:
    """Return all of it, to be piped into `kubectl apply -f -`, and what to do before."""
    head = (
        f"# A gateway in the namespace {deployed.home}, and its sandboxes in {deployed.settings.namespace}.\n"
        f"# Before: a certificate for {deployed.host}, and the image {deployed.image}, made from\n"
        "#   FROM python:3.12-slim\n"
        "#   RUN pip install --no-cache-dir 'crabpot[kubernetes]'\n"
        f"#   kubectl create namespace {deployed.home}\n"
        f"#   kubectl -n {deployed.home} create secret tls {deployed.secret} --cert=tls.crt --key=tls.key\n"
        "# After: the operator's token, for `Authorization: Bearer`:\n"
        f"#   kubectl -n {deployed.home} exec deploy/{_NAME} -- cat {_HOME}/state/http.token\n"
    )
    return head + "".join(f"---\n{yaml.document(one)}" for one in objects(deployed))


def objects(deployed: Deployed) -> list[dict[str, Any]]:
    """Return the objects, each before those that refer to it."""
    inside, home = deployed.settings.namespace, deployed.home
    made = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one, "labels": {**naming.MANAGED, **_LEVELS}}}
        for one in (inside, home)
    ]
    made += [
        _object("v1", "ResourceQuota", inside, spec={"hard": _quota(deployed)}),
        _object("v1", "ServiceAccount", home, automountServiceAccountToken=False),
        _object("rbac.authorization.k8s.io/v1", "Role", inside, rules=_rules(deployed)),
        _binding(deployed),
        render.policy(inside),
        _around(deployed),
        _object("v1", "ConfigMap", home, data={"crabpot.json5": _configuration(deployed)}),
    ]
    if deployed.claim is not None:
        size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": deployed.claim}}}
        made.append(_object("v1", "PersistentVolumeClaim", home, spec=size))
    ports = [{"name": "https", "port": 443, "targetPort": _PORT}]
    budget = {"minAvailable": 1, "selector": {"matchLabels": _labels()}}
    return [
        *made,
        _object("v1", "Service", home, spec={"selector": _labels(), "ports": ports}),
        # Its end ends every sandbox: a node is drained once somebody has decided that it may.
        _object("policy/v1", "PodDisruptionBudget", home, spec=budget),
        _object("apps/v1", "Deployment", home, spec=_deployment(deployed)),
    ]


def _object(version: str, kind: str, namespace: str, **content: Any) -> dict[str, Any]:
    metadata = {"name": _NAME, "namespace": namespace, "labels": dict(naming.MANAGED)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def _labels() -> dict[str, str]:
    return {"app.kubernetes.io/name": _NAME, "app.kubernetes.io/component": "gateway"}


def _quota(deployed: Deployed) -> dict[str, str]:
    return {
        "pods": str(deployed.sandboxes + _SPARE_PODS),
        "persistentvolumeclaims": str(deployed.sandboxes if deployed.settings.storage is not None else 0),
        "count/services": "0",
        "count/secrets": "1" if deployed.settings.image_pull_secret is not None else "0",
    }


def _rules(deployed: Deployed) -> list[dict[str, Any]]:
    needed = rights.needed(deployed.settings)
    # For the namespace's own level of Pod Security, which the clause `pod security` shows.
    return [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        *(
            {"apiGroups": [group], "resources": [f"{kind}/{sub}" if sub else kind], "verbs": list(verbs)}
            for group, kind, sub, verbs in needed
        ),
    ]


def _binding(deployed: Deployed) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": deployed.home}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": _NAME}
    namespace = deployed.settings.namespace
    return _object("rbac.authorization.k8s.io/v1", "RoleBinding", namespace, roleRef=role, subjects=[subject])


def _around(deployed: Deployed) -> dict[str, Any]:
    """Describe who reaches the gateway: its port alone. It reaches the API server, and what sandboxes may."""
    ingress = [{"ports": [{"protocol": "TCP", "port": _PORT}]}]
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress}
    return _object("networking.k8s.io/v1", "NetworkPolicy", deployed.home, spec=spec)


def _configuration(deployed: Deployed) -> str:
    one = deployed.settings
    chosen = {
        "namespace": one.namespace,
        "image": one.image,
        "inet": one.inet,
        **({} if one.runtime_class is None else {"runtimeClass": one.runtime_class}),
        **({} if one.image_pull_secret is None else {"imagePullSecret": one.image_pull_secret}),
        **({} if one.host_users is None else {"hostUsers": one.host_users}),
        **({} if one.storage is None else {"storage": _storage(one)}),
        **({"nodeSelector": dict(one.node_selector)} if one.node_selector else {}),
        **({"tolerations": render.tolerations(one)} if one.tolerations else {}),
    }
    made = {
        "agents": {"defaults": {"sandbox": {"backend": "kubernetes", "kubernetes": chosen}}},
        "gateway": {"maxSandboxes": deployed.sandboxes},
    }
    return json.dumps(made, indent=2) + "\n"


def _storage(settings: Kubernetes) -> dict[str, str]:
    assert settings.storage is not None
    size = {"size": settings.storage.size.written()}
    return size if settings.storage.class_ is None else {**size, "class": settings.storage.class_}


def _deployment(deployed: Deployed) -> dict[str, Any]:
    state: dict[str, Any] = {"emptyDir": {"sizeLimit": "10Gi"}}
    if deployed.claim is not None:
        state = {"persistentVolumeClaim": {"claimName": _NAME}}
    volumes = [
        {"name": "home", **state},
        {"name": "config", "configMap": {"name": _NAME}},
        {"name": "tls", "secret": {"secretName": deployed.secret, "defaultMode": 0o440}},
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
    ]
    user = {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {
        "replicas": 1,
        # One gateway has one state: the old one ends before the new one begins.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": _labels()},
        "template": {
            "metadata": {"labels": _labels()},
            "spec": {
                "serviceAccountName": _NAME,
                "automountServiceAccountToken": True,
                "enableServiceLinks": False,
                # It ends its sandboxes itself.
                "terminationGracePeriodSeconds": 45,
                "securityContext": user,
                "containers": [_gateway(deployed)],
                "volumes": volumes,
            },
        },
    }


def _gateway(deployed: Deployed) -> dict[str, Any]:
    tls = ["--tls-cert", f"{_TLS}/tls.crt", "--tls-key", f"{_TLS}/tls.key"]
    places = ["--config", f"{_CONFIG}/crabpot.json5", "--state", f"{_HOME}/state"]
    # The gateway serves under its certificate's names alone, and a kubelet would call it by its address.
    headers = [{"name": "Host", "value": deployed.host}]
    health = {"httpGet": {"path": "/health", "port": _PORT, "scheme": "HTTPS", "httpHeaders": headers}}
    return {
        "name": "gateway",
        "image": deployed.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["crabpot", *places, "serve", "--listen", f"0.0.0.0:{_PORT}", *tls],
        "env": [{"name": "HOME", "value": _HOME}],
        "ports": [{"name": "https", "containerPort": _PORT}],
        "startupProbe": {**health, "failureThreshold": 60, "periodSeconds": 1},
        "readinessProbe": {**health, "periodSeconds": 5},
        "livenessProbe": {**health, "periodSeconds": 20, "timeoutSeconds": 5, "failureThreshold": 3},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": render.container_walls(),
        "volumeMounts": [
            {"name": "home", "mountPath": _HOME},
            {"name": "config", "mountPath": _CONFIG, "readOnly": True},
            {"name": "tls", "mountPath": _TLS, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  a name inside
        ],
    }
