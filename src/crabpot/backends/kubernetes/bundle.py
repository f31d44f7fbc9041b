"""What of Crabpot goes into a pod, as one object that the cluster mounts read-only: the runner, the filter, shims."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shlex
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from crabpot.backends import runner_source
from crabpot.backends.kubernetes import naming
from crabpot.backends.linux import etc
from crabpot.spec import hardening, shims
from crabpot.spec.seccomp.allowed import RULES, without_internet
from crabpot.spec.seccomp.bpf import assemble
from crabpot.spec.seccomp.numbers import AUDIT_ARCHES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.spec.spec import SandboxSpec

INTERPRETER = "/usr/bin/python3"
RUNNER = f"{hardening.RUNNER}/runner"
BOOT = f"{hardening.RUNNER}/boot.py"
TERMINATION = f"{hardening.RUNNER}/termination-log"
# Writable, and nothing in them is to be run unless the configuration says so.
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108  names inside the sandbox

_PROGRAM = 0o555


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Files by their path below /crabpot, and which of them are programs."""

    files: Mapping[str, bytes]
    programs: frozenset[str]

    @property
    def digest(self) -> str:
        """Return a digest of every name and byte."""
        made = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            made.update(f"{name}\0{len(content)}\0".encode() + content)
        return made.hexdigest()

    def as_map(self, gateway: str, owner: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the object to create. Immutable: no running sandbox's files change, and nobody watches them."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": naming.bundle(gateway, self.digest),
                "labels": {**naming.MANAGED, naming.GATEWAY: gateway},
                "ownerReferences": owner,
            },
            "immutable": True,
            "binaryData": {_key(name): base64.b64encode(content).decode() for name, content in self.files.items()},
        }

    def as_volume(self, gateway: str) -> dict[str, Any]:
        """Return the volume of a pod that shows them at their paths."""
        items = [
            {"key": _key(name), "path": name, **({"mode": _PROGRAM} if name in self.programs else {})}
            for name in sorted(self.files)
        ]
        return {"configMap": {"name": naming.bundle(gateway, self.digest), "defaultMode": 0o444, "items": items}}


def make(spec: SandboxSpec) -> Bundle:
    """Return what a sandbox of this spec needs."""
    fallback = f'#!/bin/sh\nexec {shlex.quote(INTERPRETER)} "$@"\n'.encode()
    hosts = shims.written(spec.host_commands, interpreter=INTERPRETER, runner=RUNNER)
    programs = {
        **{path.removeprefix(f"{hardening.RUNNER}/"): text for path, text in hosts.items()},
        "fallback/python": fallback,
        "fallback/python3": fallback,
    }
    plan = {"unrunnable": [] if spec.tmp_exec else list(SCRATCH)}
    rules = without_internet(RULES) if spec.kubernetes.inet == "refuse" else RULES
    files = {
        **_source(),
        **programs,
        "plan.json": json.dumps(plan).encode(),
        # What the kubelet mounts for last words, which nobody writes here.
        "termination-log": b"",
        # The kubelet makes the workspace root's, and git would refuse to work in it.
        "gitconfig": b"[safe]\n\tdirectory = *\n",
        "ssh_config": etc.ssh_config(INTERPRETER, RUNNER),
        **{f"filter.{machine}": assemble(machine, rules=rules) for machine in AUDIT_ARCHES},
        **{one.target.removeprefix(f"{hardening.RUNNER}/"): _content(one.source) for one in spec.certificates},
    }
    return Bundle(files=files, programs=frozenset(programs))


@cache
def _source() -> Mapping[str, bytes]:
    paths = {f"runner/{name}": path for name, path in runner_source.files().items()}
    here = os.path.dirname(os.path.abspath(__file__))
    paths |= {name: os.path.join(here, name) for name in ("boot.py", "inside.py")}
    return {name: _content(path) for name, path in paths.items()}


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _key(name: str) -> str:
    return name.replace("/", "__")
