"""A container to render: what the tests of several spellings share."""

from __future__ import annotations

import dataclasses
from typing import Any

from crabpot.artefacts.container import IDLE, Wanted
from crabpot.spec.spec import SandboxSpec, User
from tests.support.specs import make_docker_spec


def make_spec(**changes: Any) -> SandboxSpec:
    """Describe an ordinary container without an environment, but for what is changed."""
    return make_docker_spec(**{"env": {}, **changes})


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
