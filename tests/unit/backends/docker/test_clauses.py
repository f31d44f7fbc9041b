"""What an engine makes of each promise, and which of them it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.backends.docker.clauses import Findings, clauses
from crabpot.backends.docker.image import Image
from crabpot.backends.docker.user import Choice
from crabpot.layers.store import LayerStore
from crabpot.settings import Docker, Io, Limits, Size
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import Mount, User
from tests.support.specs import make_docker_spec
from tests.unit.backends.docker.make import FACTS

if TYPE_CHECKING:
    from pathlib import Path

FOUND = Findings(
    facts=FACTS,
    image=Image(name="crabpot-sandbox:latest", id="sha256:0123456789abcdef"),
    choice=Choice(user=User(uid=1, gid=1), because="so"),
    disk="/dev/sda",
)


def table(found: Findings = FOUND, **changes: Any) -> dict[str, tuple[str, str]]:
    return {one.name: (one.state, one.how) for one in clauses(make_docker_spec(**changes), found)}


def test_an_ordinary_engine_degrades_only_the_disk_and_the_user_namespace() -> None:
    assert {name for name, (state, _) in table().items() if state != "enforced"} == {"limits.disk", "namespaces"}


def test_another_kernel_in_between_has_no_landlock_of_ours() -> None:
    assert table(docker=Docker(runtime="runsc"))["landlock"][0] == "degraded"


@pytest.mark.parametrize("kind", ["rootless", "userns"])
def test_an_engine_that_maps_users_has_a_user_namespace(kind: str) -> None:
    facts = replace(FACTS, security=FACTS.security | {kind})
    assert table(replace(FOUND, facts=facts))["namespaces"][0] == "enforced"


def test_gvisor_says_which_promises_are_not_its_own() -> None:
    facts = replace(FACTS, gvisor=frozenset({"runsc"}))
    shown = table(replace(FOUND, facts=facts), docker=Docker(runtime="runsc"))
    partly = {name for name, (state, _) in shown.items() if state == "degraded"}
    assert partly - {"limits.disk", "namespaces", "binds"} == {
        "seccomp",
        "filesystem",
        "tmp",
        "landlock",
        "limits.pids",
    }
    assert not [name for name, (state, _) in shown.items() if state == "refused"]


def test_without_an_engine_there_is_one_refusal() -> None:
    assert table(Findings(facts="no engine")) == {"sandbox": ("refused", "no engine")}


@pytest.mark.parametrize(
    ("clause", "facts", "changes"),
    [
        ("sandbox", {"os_type": "windows"}, {}),
        ("sandbox", {}, {"docker": Docker(runtime="kata")}),
        ("seccomp", {"security": frozenset({"apparmor"})}, {}),
        ("apparmor", {"security": frozenset({"seccomp"})}, {"docker": Docker(apparmor="crabpot")}),
        ("binds", {"socket": "/srv/e/x.sock"}, {"mounts": (Mount(source="/srv/e", target="/e", access="ro"),)}),
        ("binds", {"socket": "/srv/e"}, {"mounts": (Mount(source="/srv/e", target="/e", access="ro"),)}),
    ],
)
def test_what_cannot_be_kept_is_refused(clause: str, facts: dict[str, Any], changes: dict[str, Any]) -> None:
    assert table(replace(FOUND, facts=replace(FACTS, **facts)), **changes)[clause][0] == "refused"


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("image", {"image": "missing"}),
        ("user", {"choice": Choice(user=None, because="root")}),
        ("network", {"network": "no such network"}),
        ("seccomp", {"seccomp": "no such file"}),
    ],
)
def test_what_was_not_found_is_refused_with_its_reason(clause: str, found: dict[str, Any]) -> None:
    state, how = table(replace(FOUND, **found))[clause]
    assert state == "refused"
    assert how


@pytest.mark.parametrize(
    ("count", "clause"),
    [("MemoryLimit", "memory"), ("SwapLimit", "memory"), ("CpuCfsQuota", "cpus"), ("PidsLimit", "pids")],
)
def test_what_an_engine_cannot_count_is_degraded(count: str, clause: str) -> None:
    facts = replace(FACTS, counts={**FACTS.counts, count: False})
    assert table(replace(FOUND, facts=facts))[f"limits.{clause}"][0] == "degraded"


def test_limits_of_disks_say_what_they_are_worth() -> None:
    limits = Limits(io=Io(read=Size(1024)))
    assert table(limits=limits)["limits.io"][0] == "enforced"
    assert table(replace(FOUND, disk=None), limits=limits)["limits.io"][0] == "degraded"
    older = replace(FOUND, facts=replace(FACTS, cgroups="cgroup v1"))
    assert table(older, limits=limits)["limits.io"][0] == "degraded"


@pytest.mark.parametrize("kind", ["none", "bridge", "host"])
def test_the_networks_of_docker_are_kept_as_written(kind: Any) -> None:
    assert table(network=NetworkSpec(kind=kind))["network"][0] == "enforced"
    assert table(network=NetworkSpec(kind="named", name="lab"))["network"][0] == "enforced"


def test_under_another_runtime_what_was_mounted_is_not_compared() -> None:
    assert table(docker=Docker(runtime="runsc"))["binds"][0] == "degraded"


@pytest.mark.parametrize(
    "network", [NetworkSpec(kind="internet"), NetworkSpec(kind="allow", allow=("a.example:443",))], ids=str
)
def test_what_goes_through_the_gateway_is_kept_by_a_namespace_without_a_network(network: NetworkSpec) -> None:
    assert table(FOUND, network=network)["network"][0] == "enforced"


def test_a_folder_is_put_under_review_as_a_copy_and_an_overlay_is_refused(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    store = LayerStore(str(tmp_path / "state"))
    layer = store.path_of("agent:main:test")
    state, how = table(layer=layer)["workspace"]
    assert (state, how.partition(":")[0]) == ("enforced", "copy")
    who = {"scope_key": "agent:main:test", "session": "agent:main:test", "agent": "main"}
    store.make(**who, folder=str(tmp_path / "project"), mechanism="overlay")
    state, how = table(layer=layer)["workspace"]
    assert state == "refused"
    assert "crabpot changes apply|discard --session agent:main:test" in how
