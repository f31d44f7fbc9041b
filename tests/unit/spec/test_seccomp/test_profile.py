"""Claims about the Docker profile: libseccomp makes of it what the rules say, and old engines take it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crabpot.spec.seccomp.allowed import RULES
from crabpot.spec.seccomp.numbers import AUDIT_ARCHES, names, numbers
from crabpot.spec.seccomp.profile import docker_profile
from crabpot.spec.seccomp.syscall_rules import Action, Call, decide
from tests.unit.spec.test_seccomp import libseccomp
from tests.unit.spec.test_seccomp import machine as bpf
from tests.unit.spec.test_seccomp.calls import MACHINES, native_calls, odd_calls

KILL_THREAD = 0  # libseccomp's answer to foreign entry points
PROFILE: dict[str, Any] = docker_profile()


def rule(name: str, **wanted: object) -> list[dict[str, Any]]:
    entries = [entry for entry in PROFILE["syscalls"] if name in entry["names"]]
    return [entry for entry in entries if wanted.items() <= entry.items()]


@pytest.mark.parametrize("optimize", [1, 2])  # 2 is a binary tree, which newer versions of runc ask for
@pytest.mark.parametrize("machine", MACHINES)
def test_libseccomp_makes_the_same_answers_of_the_profile(machine: str, optimize: int) -> None:
    lib = libseccomp.load()
    code = bpf.parse(libseccomp.build(lib, PROFILE, machine, optimize=optimize))
    for call in (*native_calls(machine), *odd_calls(machine)):
        name = names(machine).get(call.nr, "")
        expected = decide(RULES, machine, call)
        if call.arch == AUDIT_ARCHES[machine] and name and libseccomp.resolve(lib, machine, name) is None:
            expected = Action.ENOSYS  # the library is older than the call, and leaves its rule out
        got = bpf.run(code, call).value
        assert (Action.KILL_PROCESS if got == KILL_THREAD else got) == expected, call


@pytest.mark.parametrize("machine", MACHINES)
def test_an_engine_without_default_errno_differs_only_in_numbers_that_nobody_has(machine: str) -> None:
    lib = libseccomp.load()
    code = bpf.parse(libseccomp.build(lib, PROFILE, machine, optimize=2, knows_default_errno=False))
    known = {
        number
        for name in (*numbers(machine), *RULES.absent)
        if (number := libseccomp.resolve(lib, machine, name)) is not None and number >= 0
    }
    for call in native_calls(machine):
        expected = decide(RULES, machine, call) if call.nr in known else Action.EPERM
        assert bpf.run(code, call).value == expected, call
    clone3 = Call(arch=AUDIT_ARCHES[machine], nr=435)
    assert bpf.run(code, clone3).value == Action.ENOSYS


def test_what_is_not_named_does_not_exist() -> None:
    assert (PROFILE["defaultAction"], PROFILE["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 38)


def test_no_32_bit_architecture_is_let_in() -> None:
    assert [(entry["architecture"], entry["subArchitectures"]) for entry in PROFILE["archMap"]] == [
        ("SCMP_ARCH_X86_64", []),
        ("SCMP_ARCH_AARCH64", []),
    ]
    assert "architectures" not in PROFILE  # Docker refuses a profile with both


def test_an_argument_is_tested_once_in_a_rule() -> None:
    # runc makes a choice ("or") of several tests of one argument, which would allow what all of them refuse.
    for entry in PROFILE["syscalls"]:
        indexes = [arg["index"] for arg in entry["args"]]
        assert len(indexes) == len(set(indexes)), entry


def test_regions_of_a_guarded_call_do_not_overlap() -> None:
    for name in RULES.conditional:
        masks = [{arg["index"]: (arg["value"], arg["valueTwo"]) for arg in entry["args"]} for entry in rule(name)]
        for at, one in enumerate(masks):
            for other in masks[at + 1 :]:
                assert any(
                    (one[index][1] ^ other[index][1]) & one[index][0] & other[index][0]
                    for index in one.keys() & other.keys()
                ), (name, one, other)


def test_every_field_is_one_that_docker_20_10_knows() -> None:
    top = {"defaultAction", "defaultErrnoRet", "archMap", "syscalls"}
    assert PROFILE.keys() == top
    for entry in PROFILE["syscalls"]:
        assert entry.keys() <= {"names", "action", "errnoRet", "args"}
        assert entry["action"] in {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}
        assert ("errnoRet" in entry) == (entry["action"] == "SCMP_ACT_ERRNO")
        for arg in entry["args"]:
            assert arg.keys() == {"index", "op", "value", "valueTwo"}
            assert arg["op"] == "SCMP_CMP_MASKED_EQ"
            assert 0 <= arg["valueTwo"] <= arg["value"] <= 0xFFFF_FFFF


def test_the_profile_is_plain_json_and_the_same_each_time() -> None:
    assert json.loads(json.dumps(PROFILE)) == PROFILE == docker_profile()


def test_clone3_is_named_for_engines_that_would_say_eperm() -> None:
    assert rule("clone3", action="SCMP_ACT_ERRNO", errnoRet=38)
    assert rule("mount", action="SCMP_ACT_ERRNO", errnoRet=1)


def test_a_stricter_profile_allows_nothing_new() -> None:
    stricter: dict[str, Any] = docker_profile(rules=RULES.refusing("socket", "write"))
    allowed = {name for entry in stricter["syscalls"] if entry["action"] == "SCMP_ACT_ALLOW" for name in entry["names"]}
    assert allowed == (RULES.allowed | RULES.conditional.keys()) - {"socket", "write"}
