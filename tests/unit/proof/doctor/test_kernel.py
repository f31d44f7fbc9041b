"""What the doctor makes of kernels, this machine's and others'."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabpot.backends.bubblewrap import remedy
from crabpot.backends.linux.cgroup_hierarchy import Hierarchy
from crabpot.proof.doctor import machine
from crabpot.proof.doctor.kernel import Kernel, look
from crabpot.proof.doctor.lines import version_of

ALL = frozenset({"user", "mnt", "pid", "ipc", "uts", "net", "cgroup", "time"})
UBUNTUS = {remedy.APPARMOR: "1"}
GOOD = Kernel(
    release="6.8.0-45-generic",
    root=False,
    namespaces=ALL,
    seccomp_actions="kill_process kill_thread trap errno user_notif trace log allow",
    landlock=4,
    apparmor=True,
    hierarchy=Hierarchy(version=2, folders={"memory": "/m", "pids": "/p", "cpu": "/c"}),
    core_pattern="core",
)
USERS_WITHOUT_CPU = Hierarchy(version=2, folders={"memory": "", "pids": ""}, scope="/sys/fs/cgroup")


def one(kernel, name):
    found = [line for line in look(kernel) if line.name == name]
    assert len(found) == 1
    return found[0]


def test_a_good_kernel_is_all_ok():
    assert {line.state for line in look(GOOD)} == {"ok"}
    assert all(line.fix is None for line in look(GOOD))


@pytest.mark.parametrize(
    ("change", "name", "state", "fix"),
    [
        ({"release": "4.19.0-27-amd64"}, "version", "problem", "5.6"),
        ({"release": "5.10.0-30-amd64"}, "version", "warning", "5.14"),
        ({"namespaces": ALL - {"user", "net"}}, "namespaces", "problem", "kernel"),
        ({"switches": {remedy.MAXIMUM: "0"}}, "user namespaces", "problem", "user.max_user_namespaces=15000"),
        ({"switches": {remedy.MAXIMUM: "0"}, "root": True}, "user namespaces", "problem", "max_user_namespaces"),
        ({"switches": {remedy.DEBIAN: "0"}}, "user namespaces", "problem", "unprivileged_userns_clone=1"),
        ({"switches": {remedy.DEBIAN: "0"}, "root": True}, "user namespaces", "warning", "userns_clone=1"),
        ({"switches": UBUNTUS, "sandboxes": False}, "user namespaces", "problem", "render apparmor --for bwrap"),
        ({"switches": UBUNTUS, "root": True}, "user namespaces", "warning", "render apparmor --for bwrap"),
        ({"seccomp_actions": ""}, "seccomp", "problem", "kernel"),
        ({"landlock": 0}, "Landlock", "warning", "lsm="),
        ({"hierarchy": None}, "control groups", "warning", "systemd"),
        ({"hierarchy": Hierarchy(version=1, folders={}, swap=False)}, "control groups", "warning", "swap"),
        ({"hierarchy": USERS_WITHOUT_CPU}, "control groups", "warning", "Delegate=cpu"),
        ({"sandboxes": False}, "user namespaces", "warning", "bubblewrap"),
        ({"core_pattern": "|/usr/share/apport/apport %p"}, "core dumps", "warning", "kernel.core_pattern"),
    ],
)
def test_what_is_wrong_is_told_with_what_mends_it(change, name, state, fix):
    line = one(replace(GOOD, **change), name)
    assert line.state == state
    assert fix in line.fix


def test_ubuntus_restriction_is_no_problem_once_bwrap_has_a_profile_that_lets_it_work():
    line = one(replace(GOOD, switches=UBUNTUS), "user namespaces")
    assert (line.state, line.fix) == ("ok", None)
    assert "kept from programs without an AppArmor profile" in line.says


def test_a_kernel_without_apparmor_is_no_fault_and_says_what_cannot_be_used():
    line = one(replace(GOOD, apparmor=False), "AppArmor")
    assert line.state == "ok"
    assert "docker.apparmor cannot be used" in line.says


def test_the_truth_about_this_machine():
    kernel = machine.kernel()
    with open("/proc/version", encoding="ascii") as file:
        assert kernel.release in file.read()
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        unified = any(" - cgroup2 " in line for line in file)
    where = kernel.hierarchy
    assert where is None or where.version == 1 or unified
    assert kernel.landlock > 0
    assert "errno" in kernel.seccomp_actions


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.1.5+ds1", (1, 1, 5)),
        ("v27.3.1-rc.2", (27, 3, 1)),
        ("20.10.24+dfsg1", (20, 10, 24)),
        ("1.2", (1, 2)),
        ("6.18.44-fc-v490", (6, 18, 44)),
        ("", ()),
        ("unknown", ()),
    ],
)
def test_versions_are_the_numbers_that_they_begin_with(text, version):
    assert version_of(text) == version
