"""Which cluster, and as whom: the kubeconfig as kubectl finds and merges it, or the pod's own service account."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_LARGEST = 4 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One cluster and one user of it, as written; nothing was run or connected yet."""

    server: str
    source: str
    """Where this was found, for messages."""
    authority: bytes | None = None
    server_name: str | None = None
    unchecked: bool = False
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    plugin: Mapping[str, Any] | None = None
    """The program that issues credentials, as the kubeconfig describes it."""


def find(context: str | None, environ: Mapping[str, str], home: str) -> Login:
    """Return the login that kubectl would use, or raise SandboxUnavailable with what to do."""
    named = [path for path in environ.get("KUBECONFIG", "").split(":") if path]
    paths = named or [f"{home}/.kube/config"]
    there = [path for path in paths if os.path.exists(path)]
    if not there:
        if context is None and not named and "KUBERNETES_SERVICE_HOST" in environ:
            return _in_cluster(environ)
        where = f"$KUBECONFIG ({':'.join(named)})" if named else paths[0]
        raise SandboxUnavailable(
            f"no cluster is known: there is no {where}; log in to one, set KUBECONFIG, or run the gateway in a pod"
        )
    return _login(_merged(there), context)


def _in_cluster(environ: Mapping[str, str]) -> Login:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        authority = _content(f"{_ACCOUNT}/ca.crt")
    except OSError as error:
        raise SandboxUnavailable(f"this pod has no service account to reach its cluster with: {error}") from None
    shown = f"[{host}]" if ":" in host else host
    return Login(
        server=f"https://{shown}:{port}",
        source="the service account of this pod",
        authority=authority,
        token_file=f"{_ACCOUNT}/token",
    )


def _merged(paths: list[str]) -> dict[str, Any]:
    """Merge files as kubectl does: the first that sets a value or a name keeps it."""
    made: dict[str, Any] = {"current-context": None, "contexts": {}, "clusters": {}, "users": {}, "files": paths}
    for path in paths:
        document = _parsed(path)
        made["current-context"] = made["current-context"] or document.get("current-context")
        for kind, key in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            for entry in document.get(kind) or ():
                if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                    made[kind].setdefault(
                        entry["name"], {**(entry.get(key) or {}), "folder": os.path.dirname(os.path.abspath(path))}
                    )
    return made


def _parsed(path: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415  of the extra

    try:
        document = yaml.safe_load(_content(path))
    except (OSError, yaml.YAMLError, RecursionError) as error:
        raise SandboxUnavailable(f"the kubeconfig {path} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise SandboxUnavailable(f"{path} is not a kubeconfig")
    return document


def _login(merged: dict[str, Any], wanted: str | None) -> Login:
    files, name = ":".join(merged["files"]), wanted or merged["current-context"]
    if not name:
        raise SandboxUnavailable(f"{files} has no current context: kubectl config use-context NAME, or set `context`")
    context = merged["contexts"].get(name)
    if context is None:
        known = ", ".join(sorted(merged["contexts"])) or "none"
        raise SandboxUnavailable(f'{files} has no context "{name}" (it has {known}): correct `context`')
    cluster = merged["clusters"].get(context.get("cluster"))
    user = merged["users"].get(context.get("user"), {"folder": ""})
    if cluster is None or not isinstance(cluster.get("server"), str):
        raise SandboxUnavailable(f'the context "{name}" of {files} names a cluster that is not in it')
    try:
        return Login(
            server=cluster["server"].rstrip("/"),
            source=f'context "{name}" of {files}',
            authority=_material(cluster, "certificate-authority"),
            server_name=cluster.get("tls-server-name"),
            unchecked=cluster.get("insecure-skip-tls-verify") is True,
            certificate=_material(user, "client-certificate"),
            key=_material(user, "client-key"),
            token=user.get("token"),
            token_file=_beside(user, user.get("tokenFile")),
            plugin=_plugin(user),
        )
    except (OSError, ValueError) as error:
        raise SandboxUnavailable(f'the credentials of the context "{name}" cannot be read: {error}') from None


def _plugin(user: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = user.get("exec")
    if not isinstance(found, dict) or not isinstance(found.get("command"), str):
        return None
    command = found["command"]
    # A bare name is looked up; a relative path is meant from the file that it is written in.
    return {**found, "command": _beside(user, command) if "/" in command else command}


def _material(owner: Mapping[str, Any], key: str) -> bytes | None:
    """Return a certificate or key: written into the file, or the file that it names."""
    if isinstance(owner.get(f"{key}-data"), str):
        return base64.b64decode(owner[f"{key}-data"], validate=True)
    path = _beside(owner, owner.get(key))
    return None if path is None else _content(path)


def _beside(owner: Mapping[str, Any], path: object) -> str | None:
    return os.path.join(owner["folder"], path) if isinstance(path, str) and path else None


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_LARGEST)
