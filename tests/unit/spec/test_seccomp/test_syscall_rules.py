"""Claims about the rules themselves, and about the numbers behind the names."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.errors import SandboxUnavailable
from crabpot.spec.seccomp.allowed import ABSENT, ALLOWED, CONDITIONAL, REFUSED, RULES
from crabpot.spec.seccomp.numbers import AUDIT_ARCHES, names, numbers
from crabpot.spec.seccomp.syscall_rules import Action, Bits, Call, decide
from tests.unit.spec.test_seccomp import libseccomp
from tests.unit.spec.test_seccomp.calls import AUDIT_ARCH_ARM, AUDIT_ARCH_I386, MACHINES

X86_64_HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
NEWEST_CONSIDERED = 471  # rseq_slice_yield
NAMED = RULES.allowed | RULES.refused | RULES.conditional.keys()


def answer(name: str, *args: int, machine: str = "x86_64") -> Action:
    padded = (*args, 0, 0, 0, 0, 0, 0)[:6]
    return decide(RULES, machine, Call(arch=AUDIT_ARCHES[machine], nr=numbers(machine)[name], args=padded))


def test_every_call_is_named_once() -> None:
    groups = [*ALLOWED.values(), *REFUSED.values(), *ABSENT.values(), " ".join(CONDITIONAL)]
    listed = [name for group in groups for name in group.split()]
    assert sorted(listed) == sorted(set(listed))


def kernel_header() -> dict[str, int]:
    if not X86_64_HEADER.exists():
        pytest.skip("the kernel's headers are not installed (linux-libc-dev)")
    pairs = re.findall(r"#define __NR_(\w+) (\d+)", X86_64_HEADER.read_text())
    return {name: int(number) for name, number in pairs}


def test_every_call_has_been_thought_about() -> None:
    known = {name for name, number in kernel_header().items() if number <= NEWEST_CONSIDERED}
    assert known - NAMED - RULES.absent == set()


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_libseccomp(machine: str) -> None:
    lib = libseccomp.load()
    newer_than_library = set()
    for name in NAMED:
        number = libseccomp.resolve(lib, machine, name)
        if number is None:
            newer_than_library.add(name)
        else:
            assert numbers(machine).get(name) == (number if number >= 0 else None), name
    assert newer_than_library <= {"fchmodat2", "map_shadow_stack", "mseal", "open_tree_attr"}


def test_numbers_are_those_of_the_kernels_headers() -> None:
    header = kernel_header()
    for name, number in numbers("x86_64").items():
        assert header.get(name, number) == number, name


def test_machines_number_new_calls_alike() -> None:
    new = {name: number for name, number in numbers("x86_64").items() if number >= 424}
    assert new == {name: number for name, number in numbers("aarch64").items() if number >= 424}
    # Newer than some versions of libseccomp that the numbers are compared with.
    assert (new["fchmodat2"], new["map_shadow_stack"]) == (452, 453)
    assert (new["mseal"], new["open_tree_attr"]) == (462, 467)


@pytest.mark.parametrize("machine", MACHINES)
def test_no_number_has_two_names(machine: str) -> None:
    assert len(names(machine)) == len(numbers(machine))


@pytest.mark.parametrize("machine", MACHINES)
def test_the_table_holds_the_named_calls_and_no_others(machine: str) -> None:
    assert numbers(machine).keys() <= NAMED
    assert numbers("x86_64").keys() | numbers("aarch64").keys() == NAMED


def test_an_unknown_machine_gets_no_filter_and_is_told_what_to_use() -> None:
    with pytest.raises(SandboxUnavailable, match=r"riscv64.*docker"):
        numbers("riscv64")


@pytest.mark.parametrize(
    "name",
    "futex getrandom execve read openat mmap rseq pidfd_open openat2 memfd_create seccomp".split(),
)
def test_what_every_shell_and_runtime_needs_is_allowed(name: str) -> None:
    assert answer(name) is answer(name, machine="aarch64") is Action.ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_clone3_does_not_exist(machine: str) -> None:
    assert decide(RULES, machine, Call(arch=AUDIT_ARCHES[machine], nr=435)) is Action.ENOSYS


@pytest.mark.parametrize(
    "name",
    """mount umount2 pivot_root chroot fsopen fsmount move_mount open_tree mount_setattr unshare setns ptrace
    process_vm_readv process_vm_writev pidfd_getfd io_uring_setup io_uring_enter io_uring_register bpf keyctl
    add_key request_key perf_event_open userfaultfd init_module finit_module delete_module kexec_load
    kexec_file_load reboot swapon swapoff quotactl acct open_by_handle_at kcmp settimeofday clock_settime adjtimex
    sethostname lookup_dcookie vhangup syslog""".split(),
)
@pytest.mark.parametrize("machine", MACHINES)
def test_what_an_attacker_wants_is_refused(machine: str, name: str) -> None:
    assert answer(name, machine=machine) is Action.EPERM


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_clone_makes_threads_and_processes_but_no_namespace(flag: int) -> None:
    thread, process = 0x3D0F00, 17
    assert answer("clone", thread) is answer("clone", process) is Action.ALLOW
    assert answer("clone", process | flag) is answer("clone", thread | flag | 1 << 40) is Action.EPERM


@pytest.mark.parametrize("cmd", [0x5412, 0x541C, 0x5423])
@pytest.mark.parametrize("high", [0, 1, 0x8000_0000, 0xFFFF_FFFF])
def test_terminal_injection_is_refused_whatever_the_upper_half_of_the_register(cmd: int, high: int) -> None:
    assert answer("ioctl", 0, high << 32 | cmd) is Action.EPERM
    assert answer("ioctl", 0, high << 32 | 0x5413) is Action.ALLOW


@pytest.mark.parametrize(
    ("family", "protocol", "expected"),
    [
        (1, 0, Action.ALLOW),
        (2, 6, Action.ALLOW),
        (10, 58, Action.ALLOW),
        (16, 0, Action.ALLOW),
        (16, 15, Action.EAFNOSUPPORT),  # NETLINK_KOBJECT_UEVENT
        (2, 132, Action.EPROTONOSUPPORT),  # SCTP
        (2, 33, Action.EPROTONOSUPPORT),  # DCCP
        (10, 256, Action.EPROTONOSUPPORT),  # SMC
        (17, 0, Action.EAFNOSUPPORT),  # AF_PACKET
        (38, 0, Action.EAFNOSUPPORT),  # AF_ALG
        (40, 0, Action.EAFNOSUPPORT),  # AF_VSOCK
        (1 << 32 | 40, 0, Action.EAFNOSUPPORT),
        (1 << 32 | 2, 1 << 32 | 132, Action.EPROTONOSUPPORT),
    ],
)
def test_sockets_are_unix_ip_or_route_netlink(family: int, protocol: int, expected: Action) -> None:
    assert answer("socket", family, 1, protocol) is expected


def test_socketpair_reaches_no_family_but_unix() -> None:
    assert answer("socketpair", 1) is Action.ALLOW
    assert answer("socketpair", 30) is Action.EAFNOSUPPORT  # AF_TIPC


@pytest.mark.parametrize("value", [0, 0x40000, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF])
def test_personality_can_be_asked_for_and_lose_randomisation(value: int) -> None:
    assert answer("personality", value) is Action.ALLOW


@pytest.mark.parametrize("value", [8, 0x400000, 0x440000, 0x100000, 0x40001])
def test_personality_can_do_nothing_else(value: int) -> None:
    assert answer("personality", value) is Action.EPERM


@pytest.mark.parametrize("nr", range(512, 548))
def test_x32_numbers_without_the_x32_bit_do_not_exist(nr: int) -> None:
    assert decide(RULES, "x86_64", Call(arch=AUDIT_ARCHES["x86_64"], nr=nr)) is Action.ENOSYS


@pytest.mark.parametrize(("machine", "arch"), [("x86_64", AUDIT_ARCH_I386), ("aarch64", AUDIT_ARCH_ARM)])
def test_the_32_bit_entry_point_kills(machine: str, arch: int) -> None:
    assert decide(RULES, machine, Call(arch=arch, nr=0)) is Action.KILL_PROCESS


def test_the_x32_entry_point_kills_but_a_tracers_skipped_call_does_not() -> None:
    own = AUDIT_ARCHES["x86_64"]
    assert decide(RULES, "x86_64", Call(arch=own, nr=0x4000_0000)) is Action.KILL_PROCESS
    assert decide(RULES, "x86_64", Call(arch=own, nr=0xFFFF_FFFF)) is Action.ENOSYS


@pytest.mark.parametrize("wrong", [{"value": 1 << 32}, {"value": 1, "mask": 2}, {"value": 0, "mask": 1 << 32}])
def test_no_test_of_an_argument_can_name_the_upper_half(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="low 32 bits"):
        Bits(index=0, **wrong)


@pytest.mark.parametrize("other", [Action.ALLOW, Action.KILL_PROCESS])
def test_only_failures_have_an_errno(other: Action) -> None:
    assert (Action.EPERM.errno, Action.ENOSYS.errno) == (errno.EPERM, errno.ENOSYS)
    assert (Action.EAFNOSUPPORT.errno, Action.EPROTONOSUPPORT.errno) == (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
    with pytest.raises(ValueError, match=other.name):
        _ = other.errno


@given(
    machine=st.sampled_from(MACHINES),
    more=st.sets(st.sampled_from(sorted(NAMED)), max_size=20),
    nr=st.integers(0, 600),
    args=st.tuples(*[st.integers(0, 2**64 - 1)] * 6),
)
def test_adding_a_refusal_never_allows(machine: str, more: set[str], nr: int, args: tuple[int, ...]) -> None:
    call = Call(arch=AUDIT_ARCHES[machine], nr=nr, args=args)
    before, after = decide(RULES, machine, call), decide(RULES.refusing(*more), machine, call)
    assert after is (Action.EPERM if names(machine).get(nr) in more else before)


def test_the_kernel_continues_nobody_who_was_stopped() -> None:
    assert RULES.of("timer_create") is Action.ENOSYS
    assert RULES.of("mq_notify") is Action.ENOSYS
    # struct flock and the like are unaffected: it is F_SETSIG alone, whatever stands in the upper half.
    for machine in MACHINES:
        arch, number = AUDIT_ARCHES[machine], numbers(machine)["fcntl"]
        for command, answer in (
            (10, Action.EPERM),
            (1 << 32 | 10, Action.EPERM),
            (4, Action.ALLOW),
            (1030, Action.ALLOW),
        ):
            assert decide(RULES, machine, Call(arch=arch, nr=number, args=(3, command, 0, 0, 0, 0))) is answer
