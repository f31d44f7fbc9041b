"""The Pod Security Standard "restricted", written down from its text: what a pod's spec violates."""

from __future__ import annotations

from typing import Any

_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def violations(spec: dict[str, Any]) -> list[str]:
    """Return each rule that a pod breaks."""
    found = [key for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    found += [f"volume {one['name']}" for one in spec.get("volumes", ()) if not _VOLUMES & one.keys()]
    whole = spec.get("securityContext", {})
    for one in [*spec["containers"], *spec.get("initContainers", ())]:
        own = {**whole, **one.get("securityContext", {})}
        rules = {
            "privileged": not own.get("privileged"),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "runAsNonRoot": own.get("runAsNonRoot") is True,
            "runAsUser": own.get("runAsUser") != 0,
            "seccompProfile": own.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
            "capabilities.drop": "ALL" in own.get("capabilities", {}).get("drop", ()),
            "capabilities.add": not set(own.get("capabilities", {}).get("add", ())) - {"NET_BIND_SERVICE"},
            "hostPorts": not any(port.get("hostPort") for port in one.get("ports", ())),
            "procMount": own.get("procMount", "Default") == "Default",
        }
        found += [f"{one['name']}: {rule}" for rule, holds in rules.items() if not holds]
    return found
