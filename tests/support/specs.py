"""An ordinary sandbox's description, to be changed where a test needs another."""

from __future__ import annotations

import dataclasses
from typing import Any

from crabpot.settings import Docker, Limits
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import SandboxSpec

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/workspace", "USER": "agent", "LANG": "C.UTF-8"}


def make_spec(state: str = "/state", name: str = "crabpot-test", **changes: Any) -> SandboxSpec:
    """Describe a sandbox with a private workspace, but for what is changed."""
    ordinary = SandboxSpec(
        scope_key="agent:main:test",
        name=name,
        backend="bubblewrap",
        workspace=f"{state}/sandboxes/{name}",
        private=True,
        agent_workspace=None,
        mounts=(),
        user=None,
        network=NetworkSpec(kind="none"),
        env=ENV,
        tmp_exec=False,
        limits=Limits(),
        docker=Docker(),
        socket=None,
        host_commands=(),
    )
    return dataclasses.replace(ordinary, **changes)


def make_docker_spec(**changes: Any) -> SandboxSpec:
    """Describe a container with a private workspace, but for what is changed."""
    return make_spec(**{"name": "crabpot-agent-main-test-0123abcd", "backend": "docker", **changes})
