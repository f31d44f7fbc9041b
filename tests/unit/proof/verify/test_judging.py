"""Facts of a live sandbox beside its spec: a wall that is missing is a violation, and so is a sandbox that lies."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.backends.base import Clause
from crabpot.config.load import from_text
from crabpot.proof.verify.facts import Facts
from crabpot.proof.verify.judging import Fact, judge
from crabpot.spec.binds import Surroundings
from crabpot.spec.build import build

if TYPE_CHECKING:
    from crabpot.spec.spec import SandboxSpec

AROUND = Surroundings(home="/home/a", state="/home/a/state")
HOST = {name: f"{name}:[1]" for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")}
MIB = 1024**2


def spec(text: str = "{}") -> SandboxSpec:
    settings = from_text(f"{{agents: {{defaults: {{sandbox: {text}}}}}}}", None, AROUND, {})
    return build(settings.agent("main"), "shared", AROUND)


INSIDE: dict[str, Any] = {
    "status": {
        **dict.fromkeys(("Uid", "Gid"), "1000 1000 1000 1000"),
        **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16),
        "Groups": "",
        "NoNewPrivs": "1",
        "Seccomp": "2",
        "Seccomp_filters": "1",
    },
    "namespaces": {name: f"{name}:[2]" for name in HOST},
    "uid_map": "1000 1000 1",
    "gid_map": "1000 1000 1",
    "mounts": [
        {"place": "/", "flags": "ro,nosuid", "kind": "tmpfs"},
        {"place": "/usr", "flags": "ro", "kind": "ext4"},
        {"place": "/workspace", "flags": "rw", "kind": "ext4"},
        {"place": "/tmp", "flags": "rw,nosuid,nodev,noexec", "kind": "tmpfs"},
        {"place": "/var/tmp", "flags": "rw,nosuid,nodev,noexec", "kind": "tmpfs"},
        {"place": "/dev/shm", "flags": "rw,nosuid,nodev,noexec", "kind": "tmpfs"},
    ],
    "interfaces": ["lo"],
    "environment": ["HOME", "LANG", "PATH", "PWD", "USER"],
    "limits": {"NOFILE": 1024, "FSIZE": 1024 * MIB, "NPROC": 100, "CORE": 0, "DATA": -1},
    "sizes": {"/tmp": 100 * MIB, "/var/tmp": 100 * MIB, "/dev/shm": 100 * MIB},
    "apparmor": "unconfined",
}
OUTSIDE = {**INSIDE["status"], "user namespace": "its own"}
GROUPS = {"memory.limit_in_bytes": str(2048 * MIB), "pids.max": "100", "cpu.cfs_quota_us": "200000"}
GOOD = Facts(inside=INSIDE, outside=OUTSIDE, groups=GROUPS)


def changed(path: str, value: Any) -> Facts:
    inside = copy.deepcopy(INSIDE)
    *above, last = path.split("/")
    place: Any = inside
    for name in above:
        place = place[int(name) if isinstance(place, list) else name]
    place[int(last) if isinstance(place, list) else last] = value
    return replace(GOOD, inside=inside)


def violated(facts: Facts, text: str = "{}", *weak: str) -> list[str]:
    clauses = [Clause(name=name, state="degraded", how="x") for name in weak]
    return [fact.clause for fact in judge(facts, spec(text), clauses, HOST) if fact.state == "violated"]


def test_a_sandbox_as_described_violates_nothing() -> None:
    assert violated(GOOD) == []


@pytest.mark.parametrize(
    ("path", "value", "clause"),
    [
        ("status/Uid", "0 0 0 0", "user"),
        ("status/Groups", "0 27", "user"),
        ("uid_map", "", "user"),
        ("status/CapBnd", "000001ffffffffff", "capabilities"),
        ("status/NoNewPrivs", "0", "no-new-privileges"),
        ("status/Seccomp", "0", "seccomp"),
        ("status/Seccomp_filters", "0", "seccomp"),
        ("namespaces/pid", HOST["pid"], "namespaces"),
        ("namespaces/net", HOST["net"], "network"),
        ("namespaces/ipc", "Permission denied", "namespaces"),
        ("mounts/1/flags", "rw", "filesystem"),
        ("mounts/0/flags", "rw", "filesystem"),
        ("mounts/3/flags", "rw,nosuid,nodev", "tmp"),
        ("sizes", {"/tmp": 1 << 40, "/var/tmp": 1, "/dev/shm": 1}, "limits.tmp"),
        ("interfaces", ["lo", "eth0"], "network"),
        ("environment", ["AWS_SECRET", "HOME", "LANG", "PATH", "USER"], "sandbox"),
        ("environment", ["HOME"], "sandbox"),
        ("limits/NOFILE", -1, "limits.openFiles"),
        ("limits/FSIZE", -1, "limits.fileSize"),
        ("limits/CORE", -1, "sandbox"),
    ],
)
def test_a_wall_that_is_missing_is_a_violation(path: str, value: Any, clause: str) -> None:
    assert set(violated(changed(path, value))) == {clause} | ({"filesystem"} if path.startswith("mounts/0") else set())


@pytest.mark.parametrize("file", GROUPS)
def test_a_control_group_without_its_limit_is_a_violation(file: str) -> None:
    inside = {**INSIDE, "limits": {**INSIDE["limits"], "NPROC": -1}}
    found = violated(Facts(inside=inside, outside=OUTSIDE, groups={**GROUPS, file: "max"}))
    assert len(found) == 1


def test_what_the_host_sees_counts_even_where_the_inside_says_otherwise() -> None:
    seen = replace(GOOD, outside={**OUTSIDE, "Seccomp": "0", "CapEff": "1", "Uid": "0 0 0 0"})
    assert set(violated(seen)) == {"seccomp", "capabilities", "user"}


def test_an_announced_weakness_is_degraded_and_not_more() -> None:
    facts = changed("namespaces/user", HOST["user"])
    assert violated(facts) == ["namespaces"]
    assert violated(facts, "{}", "namespaces") == []


def test_a_limit_of_each_process_is_not_the_memory_that_was_promised() -> None:
    inside = {**INSIDE, "limits": {**INSIDE["limits"], "DATA": 2048 * MIB}}
    alone = Facts(inside=inside, outside=OUTSIDE, groups={"pids.max": "100", "cpu.max": "200000 100000"})
    assert violated(alone) == ["limits.memory"]
    assert violated(alone, "{}", "limits.memory") == []


def test_wishes_are_compared_where_they_are_written() -> None:
    wish = "{limits: {memoryReservation: '100m', cpuShares: 512, io: {read: '1m'}}}"
    assert violated(GOOD, wish) == ["limits.memoryReservation", "limits.cpuShares", "limits.io"]
    more = {"memory.soft_limit_in_bytes": str(100 * MIB), "cpu.shares": "512"}
    more["blkio.throttle.read_bps_device"] = f"254:0 {MIB}"
    assert violated(replace(GOOD, groups={**GROUPS, **more}), wish) == []


@pytest.mark.parametrize("inside", [{}, {"status": 7}, {**INSIDE, "mounts": "none"}, {**INSIDE, "limits": None}])
def test_what_is_no_fact_is_a_violation(inside: dict[str, Any]) -> None:
    assert violated(Facts(inside=inside)) == ["sandbox"]


def test_a_fact_is_shown_whole() -> None:
    fact = Fact(clause="user", what="Uid", promised="not 0", found="0", state="violated")
    assert fact.as_json() == {"clause": "user", "what": "Uid", "promised": "not 0", "found": "0", "state": "violated"}
