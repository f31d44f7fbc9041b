"""A spec's hash: everything counts, order counts in lists and not in objects, and it is the same everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.settings import AgentSettings, Docker, Io, Kubernetes, Limits, Sandbox, Size
from crabpot.spec.build import build
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import Mount, SandboxSpec, User

if TYPE_CHECKING:
    from collections.abc import Callable

    from crabpot.spec.binds import Surroundings

ONE = Mount(source="/srv/a", target="/a", access="ro")
TWO = Mount(source="/srv/b", target="/b", access="ro")

SPEC = SandboxSpec(
    scope_key="shared",
    name="crabpot-shared-a4d26868",
    backend="auto",
    workspace="/srv/w",
    private=True,
    agent_workspace=None,
    mounts=(ONE, TWO),
    user=User(uid=1000, gid=1000),
    network=NetworkSpec(kind="allow", allow=("a.b:1", "c.d:2")),
    env={"A": "1", "B": "2"},
    tmp_exec=False,
    limits=Limits(),
    docker=Docker(),
    socket=None,
    host_commands=("git", "hg"),
)

CHANGES: list[dict[str, Any]] = [
    {"scope_key": "shared2"},
    {"name": "x"},
    {"backend": "docker"},
    {"workspace": "/srv/w2"},
    {"private": False},
    {"agent_workspace": "/srv/w"},
    {"mounts": (ONE,)},
    {"mounts": (TWO, ONE)},
    {"mounts": (ONE, replace(TWO, access="rw"))},
    {"mounts": (replace(ONE, source="/srv/c"), TWO)},
    {"mounts": (replace(ONE, target="/c"), TWO)},
    {"user": None},
    {"user": User(uid=1001, gid=1000)},
    {"user": User(uid=1000, gid=1001)},
    {"network": NetworkSpec(kind="none")},
    {"network": NetworkSpec(kind="allow", allow=("c.d:2", "a.b:1"))},
    {"network": NetworkSpec(kind="allow", allow=("a.b:1", "c.d:2"), ask=True)},
    {"network": NetworkSpec(kind="allow", allow=("a.b:1", "c.d:2"), inject=(("a.b:1", "X", "env:TOKEN"),))},
    {"network": NetworkSpec(kind="named", name="x")},
    {"env": {"A": "1"}},
    {"tmp_exec": True},
    {"env": {"A": "2", "B": "1"}},
    {"env": {"A": "1", "B": "2", "C": ""}},
    {"limits": Limits(memory=Size(1))},
    {"limits": Limits(io=Io(read=Size(1)))},
    {"limits": Limits(io=Io(write=Size(1)))},
    {"docker": Docker(image="x")},
    {"docker": Docker(runtime="runsc")},
    {"kubernetes": Kubernetes(namespace="pots")},
    {"kubernetes": Kubernetes(inet="refuse")},
    {"socket": "/run/x"},
    {"workspace_at": "/srv/w"},
    {"home": "/state/homes/x"},
    {"host_commands": ("git",)},
    {"host_commands": ("hg", "git")},
    {"layer": "/state/layers/x"},
]


def test_every_field_of_a_spec_is_changed_once_below() -> None:
    changed = {key for change in CHANGES for key in change}
    assert changed == {field.name for field in fields(SandboxSpec)} - {"agent", "certificates"}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_the_sandbox_changes_the_hash(change: dict[str, Any]) -> None:
    assert replace(SPEC, **change).hash != SPEC.hash


def test_no_two_of_these_changes_have_one_hash() -> None:
    hashes = [SPEC.hash, *(replace(SPEC, **change).hash for change in CHANGES)]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_whose_it_is_alone_does_not_change_the_family(change: dict[str, Any], private: bool) -> None:  # noqa: FBT001
    spec = replace(SPEC, private=private)
    whose = {"scope_key", "name", *(["workspace"] if private else [])}
    same = all(name in whose or getattr(spec, name) == value for name, value in change.items())
    changed = replace(spec, **change)
    assert (changed.family == spec.family) == same
    assert replace(spec, **change).related_to(spec).family == changed.family


@given(order=st.permutations(["A", "B", "C", "D"]))
def test_the_order_of_an_object_does_not_count(order: list[str]) -> None:
    written = {key: key.lower() for key in order}
    assert replace(SPEC, env=written).hash == replace(SPEC, env=dict(sorted(written.items()))).hash


@given(
    one=st.lists(st.sampled_from(["git", "hg", "ls"]), max_size=4),
    other=st.lists(st.sampled_from(["git", "hg", "ls"]), max_size=4),
)
def test_two_lists_have_one_hash_only_if_they_are_one_list(one: list[str], other: list[str]) -> None:
    left, right = replace(SPEC, host_commands=tuple(one)), replace(SPEC, host_commands=tuple(other))
    assert (left.hash == right.hash) == (one == other)


def test_neighbouring_values_cannot_be_shifted_into_each_other() -> None:
    glued = [{"A": "1,B:2"}, {"A": "1", "B": "2"}, {"A": '1","B":"2'}, {"A1": "", "B": "2"}]
    assert len({replace(SPEC, env=env).hash for env in glued}) == len(glued)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{memory: '2g'}", "{memory: 2147483648}"),
        ("{cpus: 2}", "{cpus: 2.0}"),
        ("{timeLimit: 60, pids: 100}", "{pids: 100, timeLimit: 60.0}"),
        ("{}", "{memory: null, io: {read: null}}"),
    ],
)
def test_two_spellings_of_one_setting_have_one_hash(
    one: str, other: str, agent_of: Callable[..., AgentSettings], around: Surroundings
) -> None:
    specs = [
        build(agent_of(f"{{agents: {{defaults: {{sandbox: {{limits: {limits}}}}}}}}}"), "shared", around)
        for limits in (one, other)
    ]
    assert specs[0].hash == specs[1].hash


def test_the_hash_of_a_spec_is_the_same_in_another_process() -> None:
    program = (
        "import sys; from crabpot.settings import AgentSettings, Sandbox; from crabpot.spec.build import build;"
        "from crabpot.spec.binds import Surroundings;"
        "agent = AgentSettings(id='main', sandbox=Sandbox(env={'B': '1', 'A': '2'}, binds=('/srv/a:/a', '/srv/b:/b')));"
        "print(build(agent, 'shared', Surroundings(home='/h', state='/s')).hash)"
    )
    from crabpot.spec.binds import Surroundings as Around

    agent = AgentSettings(id="main", sandbox=Sandbox(env={"A": "2", "B": "1"}, binds=("/srv/a:/a", "/srv/b:/b")))
    expected = build(agent, "shared", Around(home="/h", state="/s")).hash
    source = str(Path(sys.modules["crabpot"].__file__ or "").parents[1])
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, check=True, timeout=60
        )
        assert done.stdout.decode().strip() == expected


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        SPEC.private = False  # type: ignore[misc]
    json.dumps(SPEC.hash)
