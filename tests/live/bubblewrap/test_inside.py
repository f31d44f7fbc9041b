"""What an agent finds in a sandbox, seen from inside and from outside."""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.people import Person


@pytest.fixture(scope="module")
def seen(person: Person) -> dict[str, Any]:
    """One look around, for all the claims."""
    return person.run("inside")


def _options(seen: dict[str, Any], place: str) -> set[str]:
    for line in seen["mounts"].splitlines():
        _, target, _, options, *_ = line.split(" ")
        if target == place:
            return set(options.split(","))
    raise AssertionError(f"nothing is mounted at {place}")


def test_it_runs_as_agent_and_never_as_root(seen: dict[str, Any], person: Person) -> None:
    uid = 65534 if person.uid == 0 else person.uid
    assert seen["id"].startswith(f"uid={uid}(agent) gid={uid}(agent)")
    assert seen["whoami"] == "agent\n"


def test_mountinfo_names_the_hosts_folders_and_nothing_is_reached_by_the_names(seen: dict[str, Any]) -> None:
    path = seen["host path of the workspace"].strip()
    assert "/sandboxes/" in path, "docs/security.md says so, under Not promised"
    assert seen["go to host paths"].strip() == f"ls: cannot access '{path}': No such file or directory"


def test_nothing_of_the_kernels_pressure_is_there_to_be_opened_for_writing(seen: dict[str, Any]) -> None:
    assert re.fullmatch(r".*: cannot create /proc/pressure/cpu: .*\n", seen["pressure"])


@pytest.mark.parametrize("which", ["status", "runner"])
def test_it_has_no_capability_no_new_privileges_and_a_filter(seen: dict[str, Any], which: str) -> None:
    status = dict(line.split(":\t", 1) for line in seen[which].splitlines())
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["Groups"].strip() == ""


def test_the_runner_is_the_first_process_and_no_process_of_the_host_is_seen(seen: dict[str, Any]) -> None:
    assert len(seen["processes"].splitlines()) <= 3
    assert "/proc/1\n" in seen["processes"]


def test_the_environment_is_what_was_configured(seen: dict[str, Any]) -> None:
    names = {line.partition("=")[0] for line in seen["environment"].splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "USER", "LANG"}


def test_the_gateways_environment_does_not_even_reach_bwrap(seen: dict[str, Any]) -> None:
    assert "PYTHONPATH" not in seen["server environment"]


def test_the_only_network_interface_is_lo(seen: dict[str, Any]) -> None:
    assert re.findall(r"^\s*(\S+):", seen["interfaces"], re.MULTILINE) == ["lo"]


def test_the_root_is_read_only_and_so_is_all_but_workspace_and_tmp(seen: dict[str, Any]) -> None:
    assert seen["write root"].count("Read-only file system") == 5
    writable = {line.split(" ")[1] for line in seen["mounts"].splitlines() if "rw" in line.split(" ")[3].split(",")}
    assert writable == {"/workspace", "/tmp", "/var/tmp", "/dev/shm", "/dev/pts", "/proc"}


def test_tmp_is_private_noexec_nosuid_nodev_and_sized(seen: dict[str, Any]) -> None:
    for place in ("/tmp", "/dev/shm"):
        assert {"noexec", "nosuid", "nodev", "size=102400k"} <= _options(seen, place)
    assert seen["run in tmp"].count("Permission denied") == 2


def test_no_mount_gives_rights_away(seen: dict[str, Any]) -> None:
    for line in seen["mounts"].splitlines():
        _, target, kind, options, *_ = line.split(" ")
        assert "nosuid" in options.split(","), target
        assert "nodev" in options.split(",") or kind in ("devtmpfs", "devpts", "tmpfs"), target


def test_a_program_in_the_workspace_can_be_run(seen: dict[str, Any]) -> None:
    assert seen["run in workspace"] == "ran\n"


def test_devices_work_and_cannot_be_changed(seen: dict[str, Any]) -> None:
    assert seen["use devices"] == "3\n3\n"
    assert "Read-only file system" in seen["touch device"]


def test_it_has_terminals_of_its_own_and_none_of_its_callers(seen: dict[str, Any]) -> None:
    assert seen["terminal"] == "/dev/pts/0 ['0', 'ptmx']\n"
    assert "No such device or address" in seen["controlling"]
    assert seen["terminal number"] == "0"


def test_etc_holds_what_was_promised_and_nothing_else(seen: dict[str, Any]) -> None:
    allowed = {
        "alternatives",
        "ca-certificates",
        "group",
        "hosts",
        "ld.so.cache",
        "localtime",
        "nsswitch.conf",
        "os-release",
    }
    assert set(seen["etc"].split()) <= {*allowed, "passwd", "pki", "ssl"}
    assert {"group", "hosts", "nsswitch.conf", "passwd"} <= set(seen["etc"].split())


def test_nothing_of_the_host_is_there(seen: dict[str, Any]) -> None:
    assert seen["host files"].count("No such file or directory") == 9
    assert seen["host files"].endswith("/var:\ntmp\n")
    top = {
        "bin",
        "crabpot",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "sbin",
        "tmp",
        "usr",
        "var",
        "workspace",
    }
    assert set(seen["root"].split()) <= top


def test_what_reveals_or_changes_the_kernel_is_covered(seen: dict[str, Any]) -> None:
    assert seen["kernel symbols"] == "0\n"
    assert seen["sysctl"].count("Read-only file system") == 2


def test_the_runners_memory_and_descriptors_are_closed_to_what_it_runs(seen: dict[str, Any]) -> None:
    assert seen["runner memory"].count("Permission denied") == 4


def test_no_namespace_can_be_made_and_nothing_mounted(seen: dict[str, Any]) -> None:
    assert "mount: /tmp: must be superuser" in seen["mounting"] or "Operation not permitted" in seen["mounting"]
    assert "unshare failed: Operation not permitted" in seen["mounting"]


def test_its_control_group_looks_like_the_top(seen: dict[str, Any]) -> None:
    assert all(line.endswith(":/") for line in seen["groups"].splitlines())


def test_when_memory_runs_out_a_sandbox_goes_before_its_gateway(seen: dict[str, Any]) -> None:
    assert int(seen["oom"]) >= 500


def test_a_descriptor_that_the_gateway_forgot_to_close_does_not_go_in(person: Person) -> None:
    with tempfile.NamedTemporaryFile(prefix="crabpot-secret-") as secret:
        found = person.run("inherit", str(secret.fileno()), fds=(secret.fileno(),))
        assert not any(os.path.basename(secret.name) in held for held in found["held"])
        assert found["inside"].split() == ["0", "1", "2", "3"]
