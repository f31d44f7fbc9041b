"""From spec and facts to the objects of a cluster. Pure: no cluster is contacted, and nothing is looked up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crabpot.backends.kubernetes import bundle as bundles
from crabpot.backends.kubernetes import naming
from crabpot.backends.linux import etc
from crabpot.spec import hardening

if TYPE_CHECKING:
    from crabpot.backends.kubernetes.bundle import Bundle
    from crabpot.settings import Kubernetes
    from crabpot.spec.spec import SandboxSpec, User

# The pod's own clock, behind the gateway's pruning: 7 days, as long as a sandbox lives by default.
DEADLINE_S = 7 * 86_400
# A gateway that made a pod starts its runner within this time, or never.
START_S = 180
_WORKSPACE, _HOME, _FILES, _NAMES = "workspace", "home", "crabpot", "names"
_LEAST_CPU, _LEAST_MEMORY = "10m", 32 * 1024**2
_SHARES_OF_A_CPU = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """The facts that a pod is made from."""

    name: str
    gateway: str
    owner: tuple[dict[str, Any], ...]
    """The reference to the gateway's lease: what it owns, the cluster removes with it."""
    user: User
    bundle: Bundle


def labels(spec: SandboxSpec, gateway: str) -> dict[str, str]:
    """Return the labels that say which sandbox it is, and whose."""
    return {
        **naming.MANAGED,
        naming.SCOPE: spec.name,
        # A label has 63 characters at most.
        naming.SPEC: spec.hash[:63],
        naming.GATEWAY: gateway,
    }


def pod(spec: SandboxSpec, plan: PodPlan) -> dict[str, Any]:
    """Describe the pod: it satisfies Pod Security "restricted", and its main process only waits."""
    chosen = spec.kubernetes
    names = etc.written(plan.user, resolves=False, home=spec.home_at)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": plan.name,
            "namespace": chosen.namespace,
            "labels": labels(spec, plan.gateway),
            "annotations": {
                naming.KEY: spec.scope_key[:4096],
                **{_annotation(path): text.decode() for path, text in names.items()},
            },
            "ownerReferences": list(plan.owner),
        },
        "spec": {
            **walls(spec, plan.user),
            **_placement(spec),
            "containers": [
                {
                    "name": naming.CONTAINER,
                    "image": chosen.image,
                    # ":latest" would mean Always, and a registry in the way of every opening.
                    "imagePullPolicy": "IfNotPresent",
                    "command": _command("wait", str(START_S), str(DEADLINE_S)),
                    "workingDir": "/",
                    # Not in /dev, where programs write: it is a file of the node's, under no limit.
                    "terminationMessagePath": bundles.TERMINATION,
                    "env": [],
                    "resources": resources(spec),
                    "securityContext": container_walls(),
                    "volumeMounts": _mounts(spec, tuple(names)),
                }
            ],
            "volumes": _volumes(spec, plan, tuple(names)),
        },
    }


def control(spec: SandboxSpec, plan: PodPlan) -> dict[str, Any]:
    """Describe a pod that the policy does not select, by which a probe sees what the network lets through."""
    made = pod(replace(spec, kubernetes=replace(spec.kubernetes, storage=None)), plan)
    made["metadata"]["labels"] = {**naming.MANAGED, naming.CONTROL: "network", naming.GATEWAY: plan.gateway}
    made["metadata"]["annotations"].pop(naming.KEY)
    return made


def exec_command() -> list[str]:
    """Return the program of the one exec stream: the last walls, then the runner."""
    return _command("run")


def probe_command(action: str, *words: str) -> list[str]:
    """Return a program of a stream beside it, which ends by itself."""
    return _command(action, *words)


def _command(*words: str) -> list[str]:
    return [bundles.INTERPRETER, "-I", "-S", bundles.BOOT, *words]


def walls(spec: SandboxSpec, user: User) -> dict[str, Any]:
    """Return the walls around all containers of a pod."""
    chosen = spec.kubernetes
    made: dict[str, Any] = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": DEADLINE_S,
        # The process that waits ends at the first signal; what is left after this is killed.
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": False,
        "hostPID": False,
        "hostIPC": False,
        "shareProcessNamespace": False,
        "hostname": etc.HOSTNAME,
        # No name is sent to a server of the cluster's.
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user.uid,
            "runAsGroup": user.gid,
            "fsGroup": user.gid,
            "fsGroupChangePolicy": "OnRootMismatch",
            "supplementalGroups": [],
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if chosen.host_users is not None:
        made["hostUsers"] = chosen.host_users
    if chosen.runtime_class is not None:
        made["runtimeClassName"] = chosen.runtime_class
    return made


def container_walls() -> dict[str, Any]:
    """Return the walls around one container."""
    return {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _placement(spec: SandboxSpec) -> dict[str, Any]:
    chosen = spec.kubernetes
    made: dict[str, Any] = {}
    if chosen.node_selector:
        made["nodeSelector"] = dict(chosen.node_selector)
    if chosen.tolerations:
        made["tolerations"] = tolerations(chosen)
    if chosen.image_pull_secret is not None:
        made["imagePullSecrets"] = [{"name": chosen.image_pull_secret}]
    return made


def tolerations(settings: Kubernetes) -> list[dict[str, str]]:
    """Return them as a pod has them, which is as they are written."""
    keys = ("key", "operator", "value", "effect")
    return [{key: value for key in keys if (value := getattr(one, key)) is not None} for one in settings.tolerations]


def resources(spec: SandboxSpec) -> dict[str, Any]:
    """Return what the pod may use, and what the scheduler keeps for it: little, since most sandboxes are idle."""
    limits = spec.limits
    memory = min(limits.memory_reservation or _LEAST_MEMORY, limits.memory)
    shares = limits.cpu_shares
    cpu = _LEAST_CPU if shares is None else f"{max(shares * 1000 // _SHARES_OF_A_CPU, 1)}m"
    return {
        "limits": {
            "memory": str(int(limits.memory)),
            "cpu": f"{max(int(limits.cpus * 1000), 10)}m",
            "ephemeral-storage": str(int(limits.disk)),
        },
        "requests": {"memory": str(int(memory)), "cpu": cpu, "ephemeral-storage": "1Mi"},
    }


def _mounts(spec: SandboxSpec, names: tuple[str, ...]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"name": _WORKSPACE, "mountPath": spec.workspace_at, "subPath": "workspace"},
        {"name": _FILES, "mountPath": hardening.RUNNER, "readOnly": True},
        {"name": _FILES, "mountPath": "/etc/gitconfig", "subPath": "gitconfig", "readOnly": True},
        *({"name": _scratch(path), "mountPath": path} for path in bundles.SCRATCH),
        # Not /etc/hosts: the kubelet writes that one itself, whatever is mounted there.
        *(
            {"name": _NAMES, "mountPath": path, "subPath": path.rpartition("/")[2], "readOnly": True}
            for path in names
            if path != "/etc/hosts"
        ),
    ]
    if spec.home is not None:
        made.append({"name": _WORKSPACE, "mountPath": hardening.HOME, "subPath": "home"})
    if spec.network.proxied:
        made.append({"name": _FILES, "mountPath": etc.SSH_CONFIG, "subPath": "ssh_config", "readOnly": True})
    return made


def _volumes(spec: SandboxSpec, plan: PodPlan, names: tuple[str, ...]) -> list[dict[str, Any]]:
    kept: dict[str, Any] = {"emptyDir": {"sizeLimit": str(int(spec.limits.disk))}}
    # What is under review is kept by the gateway.
    if spec.kubernetes.storage is not None and spec.layer is None:
        kept = {"persistentVolumeClaim": {"claimName": naming.claim(spec.name)}}
    written = [
        {"path": path.rpartition("/")[2], "fieldRef": {"fieldPath": f"metadata.annotations['{_annotation(path)}']"}}
        for path in names
    ]
    memory = {"medium": "Memory", "sizeLimit": str(int(spec.limits.tmp))}
    return [
        {"name": _WORKSPACE, **kept},
        {"name": _FILES, **plan.bundle.as_volume(plan.gateway)},
        {"name": _NAMES, "downwardAPI": {"defaultMode": 0o444, "items": written}},
        *({"name": _scratch(path), "emptyDir": memory} for path in bundles.SCRATCH),
    ]


def _scratch(path: str) -> str:
    return path.strip("/").replace("/", "-")


def _annotation(path: str) -> str:
    return f"crabpot.dev/{path.rpartition('/')[2]}"


def claim(spec: SandboxSpec) -> dict[str, Any]:
    """Describe the volume claim of a scope's private folder, which outlives pods and gateways."""
    storage = spec.kubernetes.storage
    assert storage is not None
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": naming.claim(spec.name),
            "labels": {**naming.MANAGED, naming.SCOPE: spec.name},
            "annotations": {naming.KEY: spec.scope_key[:4096]},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(int(storage.size))}},
            **({} if storage.class_ is None else {"storageClassName": storage.class_}),
        },
    }


def policy(namespace: str) -> dict[str, Any]:
    """Describe the rule that no packet enters or leaves a sandbox."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": naming.POLICY, "namespace": namespace, "labels": dict(naming.MANAGED)},
        "spec": {
            "podSelector": {"matchExpressions": [{"key": naming.SCOPE, "operator": "Exists"}]},
            "policyTypes": ["Ingress", "Egress"],
        },
    }
