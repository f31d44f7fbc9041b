"""Where control groups are made, on machines of several kinds, built as folders; and the real ones where there are any."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from crabpot.backends.linux import cgroup_hierarchy, cgroups, limits, owner
from crabpot.backends.linux.cgroup_hierarchy import Hierarchy, Proc
from crabpot.backends.linux.held_files import Fds
from crabpot.settings import Limits


def _unified(folder: Path, *, passed: str = "memory pids cpu", available: str = "memory pids cpu io") -> Path:
    folder.mkdir(parents=True)
    for name, text in (("cgroup.controllers", available), ("cgroup.subtree_control", passed), ("cgroup.procs", "")):
        (folder / name).write_text(text)
    return folder


def _line(mount: Path, kind: str, options: str = "rw") -> str:
    return f"30 20 0:26 / {mount} rw,nosuid shared:9 - {kind} {kind} {options}\n"


def test_a_user_divides_the_nearest_group_that_is_theirs_and_passes_controllers_on(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    _unified(mount, passed="memory pids cpu")
    _unified(mount / "user@1000.service")
    _unified(mount / "user@1000.service/app.slice", passed="memory pids")
    _unified(mount / "user@1000.service/app.slice/terminal.scope", passed="")
    proc = Proc(
        mountinfo=_line(mount, "cgroup2"), membership="0::/user@1000.service/app.slice/terminal.scope\n", root=False
    )
    found = cgroup_hierarchy.discover(proc)
    assert found is not None
    assert found.version == 2
    assert set(found.folders) == {"memory", "pids"}
    assert set(found.folders.values()) == {f"{mount}/user@1000.service/app.slice"}


def test_a_group_that_passes_nothing_on_is_of_no_use(tmp_path: Path) -> None:
    mount = _unified(tmp_path / "cgroup", passed="", available="hugetlb")
    proc = Proc(mountinfo=_line(mount, "cgroup2"), membership="0::/\n", root=False)
    assert cgroup_hierarchy.discover(proc) is None


def test_root_makes_a_group_of_its_own_and_passes_controllers_on(tmp_path: Path) -> None:
    # With nothing to enable, so that a plain file stands for what the kernel would answer.
    mount = _unified(tmp_path / "cgroup", passed="memory pids cpu", available="memory pids cpu")
    found = cgroup_hierarchy.discover(Proc(mountinfo=_line(mount, "cgroup2"), membership="0::/x\n", root=True))
    assert found is not None
    assert set(found.folders) == {"memory", "pids", "cpu"}
    assert set(found.folders.values()) == {f"{mount}/crabpot"}
    assert not (mount / "crabpot").exists(), "it is made with the first sandbox"


def test_a_group_that_was_delegated_to_a_service_is_divided_and_no_other_is(tmp_path: Path) -> None:
    mount = _unified(tmp_path / "cgroup", passed="memory pids cpu io")
    unit = _unified(mount / "x.service", passed="memory pids cpu io")
    _unified(unit / "gateway", passed="")
    _mark(unit)
    inside = Proc(mountinfo=_line(mount, "cgroup2"), membership="0::/x.service/gateway\n", root=True)
    found = cgroup_hierarchy.discover(inside)
    assert found is not None
    assert set(found.folders.values()) == {str(unit)}
    # What lies below a group that systemd itself divides is a unit, and not a subgroup of ours.
    beside = replace(inside, membership="0::/x.service/y.service\n")
    _unified(unit / "y.service", passed="")
    found = cgroup_hierarchy.discover(beside)
    assert found is not None
    assert set(found.folders.values()) == {f"{mount}/crabpot"}


def test_a_delegated_group_in_which_others_live_is_left_alone(tmp_path: Path) -> None:
    mount = _unified(tmp_path / "cgroup", passed="memory pids cpu io")
    unit = _unified(mount / "x.service", passed="")
    _mark(unit)
    # The second is neither this process nor a parent or child of it: no process has this number.
    (unit / "cgroup.procs").write_text(f"{os.getpid()}\n{2**23}\n")
    found = cgroup_hierarchy.discover(Proc(mountinfo=_line(mount, "cgroup2"), membership="0::/x.service\n", root=True))
    assert found is not None
    assert set(found.folders.values()) == {f"{mount}/crabpot"}
    assert not (unit / "gateway").exists()


def _mark(folder: Path) -> None:
    """Say as systemd does that a group was delegated."""
    try:
        os.setxattr(folder, "user.delegate", b"1")
    except OSError as error:
        pytest.skip(f"no extended attributes here: {error}")


def test_the_older_groups_are_for_root_and_found_by_what_is_mounted(tmp_path: Path) -> None:
    lines = ""
    for name, options in (
        ("cpu,cpuacct", "rw,cpu,cpuacct"),
        ("memory", "rw,memory"),
        ("pids", "rw,pids"),
        ("freezer", "rw,freezer"),
    ):
        (tmp_path / name).mkdir()
        lines += _line(tmp_path / name, "cgroup", options)
    (tmp_path / "memory/memory.memsw.limit_in_bytes").touch()
    found = cgroup_hierarchy.discover(Proc(mountinfo=lines, membership="", root=True))
    assert found is not None
    assert found.version == 1
    assert found.swap
    assert found.folders["cpu"] == f"{tmp_path}/cpu,cpuacct/crabpot"
    assert set(found.folders) == {"memory", "pids", "cpu", "freezer"}
    assert cgroup_hierarchy.discover(Proc(mountinfo=lines, membership="", root=False)) is None


def test_a_kernel_that_does_not_count_swap_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    found = cgroup_hierarchy.discover(
        Proc(mountinfo=_line(tmp_path / "memory", "cgroup", "rw,memory"), membership="", root=True)
    )
    assert found is not None
    assert not found.swap


def test_a_machine_without_control_groups_has_none() -> None:
    assert cgroup_hierarchy.discover(Proc(mountinfo="", membership="", root=True)) is None


def _here() -> cgroup_hierarchy.Hierarchy:
    found = cgroup_hierarchy.discover(Proc.here())
    if found is None or found.scope is not None:
        pytest.skip("no control groups that this user may make")
    return found


def test_a_real_group_is_made_with_its_limits_joined_frozen_and_removed() -> None:
    place = _here()
    settings = limits.version_1 if place.version == 1 else limits.version_2
    group = cgroups.Cgroup.make(place, owner.label("test"), settings(Limits(pids=33), None))
    process = subprocess.Popen(["sleep", "100"])
    try:
        assert Path(group._folders["pids"], "pids.max").read_text() == "33\n"
        for folder in set(group._folders.values()):
            Path(folder, "cgroup.procs").write_text(str(process.pid))
        assert group.remove() is False, "a group with a process in it went away"
        assert group.hits() == {}
        assert group.set_frozen(frozen=True)
        group.set_frozen(frozen=False)
    finally:
        process.kill()
        process.wait()
    assert group.remove()
    assert not any(os.path.exists(folder) for folder in group._folders.values())


def test_groups_of_dead_gateways_are_reaped_and_those_of_the_living_are_not() -> None:
    place = _here()
    ended = subprocess.Popen(["true"])
    stale = f"crabpot-{ended.pid}-{owner.started(ended.pid)}-old"
    ended.wait()
    dead = cgroups.Cgroup.make(place, stale, [])
    alive = cgroups.Cgroup.make(place, owner.label("alive"), [limits.Setting("pids", "pids.max", "9")])
    dead._folders = {name: f"{folder}/{stale}" for name, folder in place.folders.items()}
    try:
        cgroups.reap(place)
        assert not any(os.path.exists(folder) for folder in dead._folders.values())
        assert all(os.path.exists(folder) for folder in alive._folders.values())
    finally:
        dead.remove()
        alive.remove()


def test_what_a_dead_gateway_had_frozen_can_come_to_its_end() -> None:
    place = _here()
    with subprocess.Popen(["true"]) as ended:
        stale = f"crabpot-{ended.pid}-{owner.started(ended.pid)}-frozen"
    group = cgroups.Cgroup.make(place, stale, [])
    with subprocess.Popen(["sleep", "100"]) as process:
        for folder in set(group._folders.values()):
            Path(folder, "cgroup.procs").write_text(str(process.pid))
        assert group.set_frozen(frozen=True)
        process.kill()
        cgroups.reap(place)
        assert process.wait(timeout=20) == -9
    assert group.remove()


def test_descriptors_of_a_group_that_cannot_all_be_opened_are_closed(tmp_path: Path) -> None:
    (tmp_path / "tasks").touch()
    group = cgroups.Cgroup(Hierarchy(version=1, folders={}), {"cpu": str(tmp_path), "memory": str(tmp_path / "gone")})
    before = os.listdir("/proc/self/fd")
    with Fds() as fds, pytest.raises(FileNotFoundError):
        tuple(map(fds.add, group.join_fds()))
    assert os.listdir("/proc/self/fd") == before


def test_a_group_whose_limit_cannot_be_set_is_not_left_behind() -> None:
    place = _here()
    label = owner.label("broken")
    with pytest.raises(OSError, match="Invalid argument"):
        cgroups.Cgroup.make(place, label, [limits.Setting("pids", "pids.max", "not a number")])
    assert not any(os.path.exists(f"{folder}/{label}") for folder in place.folders.values())


def test_the_disk_of_a_file_is_the_whole_disk_and_of_a_tmpfs_none() -> None:
    assert cgroups.disk_of(os.makedev(0, 99)) is None
    found = cgroups.disk_of(os.stat("/").st_dev)
    assert found is None or found.replace(":", "").isdigit()


def test_an_agent_with_many_sandboxes_shares_the_processor_as_one() -> None:
    place = _here()
    if place.version != 1:
        pytest.skip("only control groups of the older kind are divided by agent")
    wanted = list(limits.version_1(Limits(), None))
    made = [cgroups.Cgroup.make(place, owner.label(name), wanted, agent=name[0]) for name in ("a1", "a2", "b1")]
    first, second, other = [Path(group._folders["cpu"]).parent for group in made]
    assert first == second != other
    assert first.parent == other.parent == Path(place.folders["cpu"])
    assert made[0].remove()
    assert first.exists(), "the folder of an agent went while a sandbox of it lived"
    assert made[1].remove()
    assert made[2].remove()
    assert not first.exists()
    assert not other.exists()


def test_the_weight_of_an_agent_counts_against_other_agents_and_not_among_its_own_sandboxes_only() -> None:
    place = _here()
    if place.version != 1:
        pytest.skip("only control groups of the older kind are divided by agent")
    heavy = cgroups.Cgroup.make(place, owner.label("a"), limits.version_1(Limits(), None), agent="trusted")
    light = cgroups.Cgroup.make(place, owner.label("b"), limits.version_1(Limits(cpu_shares=8), None), agent="hostile")
    shares = [Path(group._folders["cpu"]).parent.joinpath("cpu.shares").read_text() for group in (heavy, light)]
    assert heavy.remove()
    assert light.remove()
    assert shares == ["1024\n", "8\n"]
