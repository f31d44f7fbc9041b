"""What is reported of a spec on machines of several kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crabpot.backends.bubblewrap.clauses import Findings, clauses
from crabpot.backends.bubblewrap.render import Program
from crabpot.backends.bubblewrap.user import Choice
from crabpot.backends.linux.cgroup_hierarchy import Hierarchy
from crabpot.settings import MIB, Io, Limits, Size
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import Mount, User
from tests.support.specs import make_spec

FOLDERS = {"memory": "/m", "pids": "/p", "cpu": "/c"}
GOOD = Findings(
    choice=Choice(user=User(uid=1000, gid=1000), because="the gateway's own user"),
    program=Program(mounting="fd", seals=True, safe_below_links=True),
    bwrap="/usr/bin/bwrap",
    interpreter="/usr/bin/python3",
    hierarchy=Hierarchy(version=2, folders=FOLDERS),
    kernel=(6, 1),
    landlock=4,
)
NESTED = (Mount(source="/a", target="/data", access="rw"), Mount(source="/b", target="/data/ref", access="ro"))


def _states(found: Findings = GOOD, **changes: Any) -> dict[str, str]:
    return {clause.name: clause.state for clause in clauses(make_spec("/state", **changes), found)}


def test_a_good_machine_degrades_nothing_but_the_disk() -> None:
    assert {name for name, state in _states().items() if state != "enforced"} == {"limits.disk"}


def test_a_kernel_without_landlock_has_one_wall_less_and_says_so() -> None:
    assert _states(replace(GOOD, landlock=0))["landlock"] == "degraded"
    assert _states(replace(GOOD, landlock=1))["landlock"] == "degraded"


def test_every_clause_says_how() -> None:
    for clause in clauses(make_spec("/state"), GOOD):
        assert clause.how
        assert set(clause.as_json()) == {"name", "state", "how"}


def test_without_a_working_bwrap_there_is_one_refusal_and_its_reason() -> None:
    table = clauses(make_spec("/state"), replace(GOOD, program="user namespaces are switched off"))
    assert [(clause.name, clause.state, clause.how) for clause in table] == [
        ("sandbox", "refused", "user namespaces are switched off")
    ]


def test_a_user_that_cannot_be_is_refused() -> None:
    assert _states(replace(GOOD, choice=Choice(user=None, because="no")))["user"] == "refused"


def test_groups_that_survive_are_named_and_not_called_enforced() -> None:
    found = {one.name: one for one in clauses(make_spec("/state"), replace(GOOD, groups=("adm", "docker")))}
    assert found["user"].state == "degraded"
    assert "adm, docker" in found["user"].how


def test_a_bwrap_that_was_passed_over_is_named_with_the_reason() -> None:
    found = replace(GOOD, bwrap="/wheel/bwrap", passed_over={"/usr/bin/bwrap": "AppArmor's profile forbids it"})
    first = clauses(make_spec("/state"), found)[0]
    assert "not /usr/bin/bwrap: AppArmor's profile forbids it" in first.how


def test_without_a_seal_tmp_is_degraded_and_says_why() -> None:
    plain = replace(GOOD, program=Program(mounting="fd", seals=False, safe_below_links=True))
    assert _states(plain)["tmp"] == "degraded"


@pytest.mark.parametrize(
    ("safe", "mounting", "state"),
    [(True, "fd", "enforced"), (False, "fd", "refused"), (False, "path", "refused"), (False, "attach", "enforced")],
)
def test_a_bind_inside_another_depends_on_the_bwrap(*, safe: bool, mounting: Any, state: str) -> None:
    program = Program(mounting=mounting, seals=True, safe_below_links=safe)
    assert _states(replace(GOOD, program=program), mounts=NESTED)["binds"] == state


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("none", "enforced"),
        ("host", "enforced"),
        ("internet", "enforced"),
        ("allow", "enforced"),
        ("bridge", "refused"),
        ("named", "refused"),
    ],
)
def test_networks_are_kept_or_refused_never_ignored(kind: Any, state: str) -> None:
    assert _states(network=NetworkSpec(kind=kind))["network"] == state


def test_without_control_groups_memory_and_cpu_are_degraded_and_processes_counted_inside() -> None:
    states = _states(replace(GOOD, hierarchy=None))
    assert (states["limits.memory"], states["limits.cpus"], states["limits.pids"]) == (
        "degraded",
        "degraded",
        "enforced",
    )


def test_an_old_kernel_without_control_groups_does_not_count_processes() -> None:
    assert _states(replace(GOOD, hierarchy=None, kernel=(5, 10)))["limits.pids"] == "degraded"


def test_without_control_groups_it_is_said_how_a_limit_shows_that_nothing_counts() -> None:
    told = {one.name: one.how for one in clauses(make_spec("/state"), replace(GOOD, hierarchy=None))}
    assert "for each process" in told["limits.memory"]
    for limit, code in (("limits.memory", "memory_limit"), ("limits.pids", "process_limit")):
        assert f"reports its own error, without `{code}`" in told[limit]


def test_swap_that_is_not_counted_degrades_memory() -> None:
    place = Hierarchy(version=1, folders=FOLDERS, swap=False)
    assert _states(replace(GOOD, hierarchy=place))["limits.memory"] == "degraded"


def test_a_workspace_on_no_disk_is_not_called_limited() -> None:
    place = Hierarchy(version=2, folders={**FOLDERS, "io": "/i"})
    limits = Limits(io=Io(write=Size(MIB)))
    assert _states(replace(GOOD, hierarchy=place, disk=None), limits=limits)["limits.io"] == "degraded"


@pytest.mark.parametrize(
    ("extra", "state"), [({"io": "/i"}, "enforced"), ({"blkio": "/b"}, "degraded"), ({}, "degraded")]
)
def test_wishes_are_only_reported_where_they_are_configured(extra: dict[str, str], state: str) -> None:
    limits = Limits(io=Io(read=Size(MIB)), cpu_shares=512, memory_reservation=Size(MIB))
    place = Hierarchy(version=2, folders={**FOLDERS, **extra})
    states = _states(replace(GOOD, hierarchy=place, disk="254:0"), limits=limits)
    assert states["limits.io"] == state
    assert states["limits.cpuShares"] == "enforced"
    assert states["limits.memoryReservation"] == "enforced"
    assert not {"limits.io", "limits.cpuShares", "limits.memoryReservation"} & set(_states())
    assert _states(replace(GOOD, hierarchy=None), limits=limits)["limits.cpuShares"] == "degraded"
