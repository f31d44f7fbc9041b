"""What the settings of a cluster may be: names that its API server takes, and nothing that opens a wall."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.settings import Kubernetes, Toleration

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*", re.ASCII)
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}", re.ASCII)
_WORD = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_LONGEST = 253


def problems(settings: Kubernetes) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the settings of the kubernetes backend, as (merged path, message)."""
    at = "sandbox.kubernetes"
    if settings.context is not None and (not settings.context.strip() or not settings.context.isprintable()):
        yield f"{at}.context", "must be the name of a context (kubectl config get-contexts -o name)"
    if not _LABEL.fullmatch(settings.namespace):
        yield f"{at}.namespace", f'"{settings.namespace}" cannot be the name of a namespace: a-z, 0-9 and -, at most 63'
    elif settings.namespace in ("default", "kube-system", "kube-public", "kube-node-lease"):
        why = "the cluster's own; sandboxes have one to themselves"
        yield f"{at}.namespace", f'"{settings.namespace}" is {why}, such as "crabpot"'
    if not _IMAGE.fullmatch(settings.image):
        yield f"{at}.image", f'"{settings.image}" cannot be the name of an image'
    yield from _name_problems(settings)
    for key, value in settings.node_selector.items():
        if not _is_label_key(key) or not _WORD.fullmatch(value):
            yield f"{at}.nodeSelector.{key}", f'"{key}": "{value}" cannot be a label of a node'
    for index, one in enumerate(settings.tolerations):
        if wrong := _problem_with(one):
            yield f"{at}.tolerations[{index}]", wrong


def _name_problems(settings: Kubernetes) -> Iterator[tuple[str, str]]:
    names = {
        "runtimeClass": settings.runtime_class,
        "imagePullSecret": settings.image_pull_secret,
        "storage.class": None if settings.storage is None else settings.storage.class_,
    }
    for key, value in names.items():
        if value is not None and not _is_subdomain(value):
            yield f"sandbox.kubernetes.{key}", f'"{value}" cannot be a name in a cluster: a-z, 0-9, - and .'


def _problem_with(one: Toleration) -> str | None:
    if one.operator == "Exists" and one.value is not None:
        return 'operator "Exists" takes no value: leave it out, or write "Equal"'
    if one.operator == "Equal" and one.key is None:
        return 'needs a key; operator "Exists" without one tolerates every taint'
    if (one.key is not None and not _is_label_key(one.key)) or not _WORD.fullmatch(one.value or ""):
        return "its key and value cannot be those of a taint"
    return None


def _is_subdomain(text: str) -> bool:
    return len(text) <= _LONGEST and _SUBDOMAIN.fullmatch(text) is not None


def _is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return bool(name) and _WORD.fullmatch(name) is not None and (not slash or _is_subdomain(prefix))
