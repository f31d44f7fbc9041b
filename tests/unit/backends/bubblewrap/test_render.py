"""From spec and facts to bwrap's arguments, word for word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crabpot.backends.bubblewrap import render
from crabpot.backends.bubblewrap.layout import Layout
from crabpot.backends.bubblewrap.render import LaunchPlan, Program
from crabpot.backends.linux.held_files import Held
from crabpot.settings import GIB, Limits, Size
from crabpot.spec import hardening
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import Mount
from tests.support.specs import make_spec

GOLDEN = Path(__file__).with_name("golden")
SEALED = Program(mounting="fd", seals=True, safe_below_links=False)
LAYOUT = Layout(
    mounts=("/usr", "/etc/alternatives", "/etc/ssl/certs"),
    links=(("usr/bin", "/bin"), ("usr/lib", "/lib"), ("/usr/share/zoneinfo/Etc/UTC", "/etc/localtime")),
    copies=("/etc/ld.so.cache",),
    masked_files=("/proc/kcore", "/proc/keys"),
    masked_folders=("/proc/acpi",),
    fixed=("/proc/sys", "/proc/sysrq-trigger"),
)
RUNNER = Held(fd=21, path="/state/bundle/runner", target=render.RUNNER, access="ro", device=1, inode=2)
WORKSPACE = Held(fd=20, path="/state/ws", target="/workspace", access="rw", device=1, inode=3)
AGENT = Held(fd=22, path="/home/a/agent", target="/agent", access="ro", device=1, inode=4)
DATA = Held(fd=23, path="/srv/data", target="/mnt/data", access="rw", device=1, inode=5)
REFERENCE = Held(fd=24, path="/srv/ref.txt", target="/mnt/data/ref.txt", access="ro", folder=False, device=1, inode=6)
BELOW_TMP = Held(fd=25, path="/tmp/a/b", target="/tmp/a/b", access="rw", device=1, inode=7)
HOME = Held(fd=26, path="/state/homes/x", target="/home/agent", access="rw", device=1, inode=8)

LOWER = Held(fd=25, path="/home/a/project", target="/workspace", access="ro", device=1, inode=7)
LAYER = Held(fd=26, path="/state/layers/crabpot-test", target=hardening.LAYER, access="rw", device=1, inode=8)

PLAN = LaunchPlan(
    program=SEALED,
    layout=LAYOUT,
    interpreter="/usr/bin/python3.11",
    held=(WORKSPACE, RUNNER),
    files=(("/etc/passwd", 30), ("/etc/ld.so.cache", 31), (render.SEAL, 32), (render.FILTER, 33)),
    wire_fd=10,
    report_fd=11,
)
UNSEALED = tuple(one for one in PLAN.files if one[0] != render.SEAL)
CASES: dict[str, tuple[dict[str, Any], LaunchPlan]] = {
    "sealed": ({}, replace(PLAN, data_bytes=2 * GIB)),
    "sealed-as-root-in-a-group": (
        {},
        replace(PLAN, program=replace(SEALED, mounting="attach"), join_fds=(40, 41), data_bytes=None),
    ),
    "plain": ({}, replace(PLAN, program=replace(SEALED, seals=False), filter_fd=33, files=PLAN.files[:3])),
    "under-review-as-root": (
        {"workspace": LOWER.path, "private": False, "layer": LAYER.path},
        replace(PLAN, program=replace(SEALED, mounting="attach"), held=(LAYER, LOWER, RUNNER), overlay="/workspace"),
    ),
    "forked": (
        {},
        replace(
            PLAN,
            program=replace(SEALED, mounting="find"),
            files=UNSEALED,
            report_fd=None,
            numbers={10: 6, 30: 3, 31: 4, 33: 5},
        ),
    ),
    "by-path": ({}, replace(PLAN, program=replace(SEALED, mounting="path"))),
    "with-binds-and-the-hosts-network": (
        {
            "network": NetworkSpec(kind="host"),
            "agent_workspace": AGENT.path,
            "mounts": (
                Mount(source=REFERENCE.path, target=REFERENCE.target, access="ro"),
                Mount(source=DATA.path, target=DATA.target, access="rw"),
            ),
            "limits": Limits(tmp=Size(5_000_000)),
        },
        replace(
            PLAN,
            held=(WORKSPACE, AGENT, REFERENCE, DATA, RUNNER),
            files=(*PLAN.files, ("/etc/resolv.conf", 34)),
        ),
    ),
    "below-tmp-with-a-home": (
        {"workspace": BELOW_TMP.path, "private": False, "workspace_at": BELOW_TMP.target, "home": HOME.path},
        replace(PLAN, held=(BELOW_TMP, HOME, RUNNER)),
    ),
}


def _arguments(case: str) -> list[str]:
    changes, plan = CASES[case]
    return render.arguments(make_spec("/state", **changes), plan)


def _lines(arguments: list[str]) -> str:
    """Write one option, or one order of the seal's, to a line."""
    words, separator = [], arguments.index("--")
    for index, word in enumerate(arguments):
        new = word.startswith("--") if index <= separator else index == separator + 1 or "=" in word
        words.append(("\n" if new and index else "") + (word if new else f" {word}" if index else word))
    return "".join(words) + "\n"


@pytest.mark.parametrize("case", CASES)
def test_the_arguments_are_word_for_word_what_was_reviewed(case: str) -> None:
    assert _lines(_arguments(case)) == (GOLDEN / f"{case}.txt").read_text()


@pytest.mark.parametrize("case", CASES)
def test_every_sandbox_has_its_own_namespaces_no_terminal_and_dies_with_its_gateway(case: str) -> None:
    arguments = _arguments(case)
    wanted = {"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--new-session", "--die-with-parent"}
    assert wanted <= set(arguments)
    assert ("--unshare-net" in arguments) == (case != "with-binds-and-the-hosts-network")


@pytest.mark.parametrize("case", CASES)
def test_the_root_is_made_read_only_after_everything_is_in_place(case: str) -> None:
    arguments = _arguments(case)
    making = {
        "--dir",
        "--bind",
        "--ro-bind",
        "--bind-fd",
        "--ro-bind-fd",
        "--dev-bind",
        "--file",
        "--tmpfs",
        "--symlink",
    }
    last = max(index for index, word in enumerate(arguments) if word in making)
    remounted = [
        index for index, word in enumerate(arguments) if word == "--remount-ro" and arguments[index + 1] == "/"
    ]
    assert len(remounted) == 1
    assert remounted[0] > last


@pytest.mark.parametrize("case", CASES)
def test_nothing_of_the_gateways_environment_goes_in(case: str) -> None:
    arguments = _arguments(case)
    at = arguments.index("--clearenv")
    assert arguments[at : at + 4] == ["--clearenv", "--setenv", "LANG", hardening.LANG]
    assert arguments.count("--setenv") == 1


@pytest.mark.parametrize("case", CASES)
def test_capabilities_are_dropped_and_those_that_the_seal_needs_are_given_up_before_the_filter(case: str) -> None:
    arguments = _arguments(case)
    orders = arguments[arguments.index("--") + 1 :]
    at = arguments.index("--cap-drop")
    assert arguments[at + 1] == "ALL"
    if "--cap-add" in arguments:
        assert orders[-2:] == ["drop=", f"filter={render.FILTER}"]
    else:
        assert "--seccomp" in arguments


def test_a_configured_variable_reaches_the_runner_by_the_wire_and_never_bwraps_loader() -> None:
    spec = make_spec("/state", env={"LD_PRELOAD": "/workspace/evil.so", "SECRET": "s3cret"})
    text = " ".join(render.arguments(spec, PLAN))
    assert "evil.so" not in text
    assert "s3cret" not in text


@pytest.mark.parametrize("case", CASES)
def test_exactly_the_descriptors_that_are_named_go_in(case: str) -> None:
    _, plan = CASES[case]
    given = render.descriptors(plan)
    words = [word for argument in _arguments(case) for word in (argument, *argument.replace("=", ":").split(":"))]
    assert all(str(plan.number(fd)) in words for fd in given)
    assert len(set(given)) == len(given)


def test_a_mount_inside_another_is_found_whatever_their_order() -> None:
    inside = Mount(source="/a", target="/data/ref", access="ro")
    around = Mount(source="/b", target="/data", access="rw")
    beside = Mount(source="/c", target="/database", access="rw")
    assert render.nested(make_spec("/s", mounts=(inside, around, beside))) == ["/data/ref"]
    assert render.nested(make_spec("/s", mounts=(around, beside))) == []


def test_folders_above_a_mount_can_be_entered_by_the_agent() -> None:
    arguments = _arguments("with-binds-and-the-hosts-network")
    at = arguments.index("/mnt")
    assert arguments[at - 3 : at + 1] == ["--perms", "0755", "--dir", "/mnt"]


def test_no_folder_is_made_inside_a_tree_that_the_agent_can_write() -> None:
    arguments = _arguments("with-binds-and-the-hosts-network")
    made = [arguments[index + 1] for index, word in enumerate(arguments) if word == "--dir"]
    assert not any(path == "/mnt/data" or path.startswith(("/mnt/data/", "/workspace/")) for path in made)


def test_a_layer_is_out_of_reach_before_the_runner_starts_and_before_the_rights_are_dropped() -> None:
    names = [word.partition("=") for word in _arguments("under-review-as-root") if "=" in word]
    orders = [(name, value) for name, _, value in names]
    mounted = orders.index(("overlay", hardening.WORKSPACE))
    assert mounted < orders.index(("detach", hardening.LAYER)) < orders.index(("drop", ""))


def test_a_child_of_the_fork_server_enters_its_namespaces_after_the_last_mount_and_before_it_gives_up_its_rights() -> (
    None
):
    orders = [word.partition("=")[0] for word in _arguments("forked") if "=" in word]
    assert orders[-3:] == ["isolate", "drop", "filter"]
    assert orders.count("isolate") == 1
    assert "isolate=" not in _arguments("sealed")


def test_every_folder_that_a_child_of_the_fork_server_attaches_was_compared_first() -> None:
    arguments = _arguments("forked")
    found = [arguments[index + 1 : index + 5] for index, word in enumerate(arguments) if word == "--find"]
    assert found == [["rw", "1:3", "/state/ws", "/workspace"], ["ro", "1:2", RUNNER.path, RUNNER.target]]
    assert {word.partition(":")[2] for word in arguments if word.startswith("attach=")} == {one[3] for one in found}


def test_descriptors_that_are_sent_are_named_by_the_numbers_with_which_they_arrive() -> None:
    plan = replace(PLAN, program=replace(SEALED, mounting="attach"), files=UNSEALED, report_fd=None, join_fds=(40, 41))
    sent = render.descriptors(plan)
    assert sent == [20, 21, 30, 31, 33, 10, 40, 41]
    told = render.arguments(make_spec("/state"), replace(plan, numbers={fd: 3 + at for at, fd in enumerate(sent)}))
    assert [word for word in told if word.startswith(("attach=", "join="))] == [
        *("join=9", "join=10"),
        *("attach=3:/workspace", f"attach=4:{render.RUNNER}"),
    ]
    assert [told[at + 1] for at, word in enumerate(told) if word == "--file"] == ["5", "6", "7"]
    assert told[told.index(render.SEAL) + 1] == "8"
