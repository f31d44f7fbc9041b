"""A container to render: what the tests of several spellings share."""

from __future__ import annotations

import dataclasses
from typing import Any

from crabpot.artefacts.container import IDLE, Wanted
from crabpot.settings import Docker, Limits
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import SandboxSpec, User


def make_spec(**changes: Any) -> SandboxSpec:
    """Describe an ordinary sandbox, but for what is changed."""
    ordinary = SandboxSpec(
        scope_key="agent:main:main",
        name="crabpot-agent-main-main-0123abcd",
        backend="docker",
        workspace="/state/sandboxes/x",
        private=True,
        agent_workspace=None,
        mounts=(),
        user=None,
        network=NetworkSpec(kind="none"),
        env={},
        limits=Limits(),
        docker=Docker(),
        socket=None,
        host_commands=(),
    )
    return dataclasses.replace(ordinary, **changes)


def make_wanted(**changes: Any) -> Wanted:
    """Ask for an ordinary container, but for what is changed."""
    ordinary = Wanted(
        name="pot",
        image="crabpot-sandbox:latest",
        command=IDLE,
        user=User(uid=1000, gid=1000),
        env={},
        volumes=(),
        ports=(),
        health=None,
        seccomp="/state/seccomp.json",
    )
    return dataclasses.replace(ordinary, **changes)
