"""The filter of a guard, answered by its rules: no socket that reaches a service, no file that runs as its owner."""

from __future__ import annotations

import pytest

from crabpot.host_commands.guard import filter as calls
from crabpot.spec.seccomp.numbers import AUDIT_ARCHES, numbers
from crabpot.spec.seccomp.syscall_rules import Action, Call, decide

AF_UNIX, AF_INET, STREAM, DGRAM, SEQPACKET = 1, 2, 1, 2, 5
CLOEXEC = 0o2000000


def answer(name: str, *args: int, machine: str = "x86_64", sockets: bool = False) -> Action:
    given = (*args, *([0] * (6 - len(args))))
    call = Call(arch=AUDIT_ARCHES[machine], nr=numbers(machine)[name], args=given)
    return decide(calls.rules(sockets=sockets), machine, call)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_unix_socket_can_be_made_unless_one_is_named(machine: str) -> None:
    for kind in (STREAM, DGRAM, SEQPACKET, STREAM | CLOEXEC):
        assert answer("socket", AF_UNIX, kind, machine=machine) is Action.EAFNOSUPPORT
        assert answer("socket", AF_UNIX, kind, machine=machine, sockets=True) is Action.ALLOW
    assert answer("socket", AF_INET, STREAM, machine=machine) is Action.ALLOW


def test_a_pair_reaches_nobody_but_one_of_datagrams_could_be_sent_anywhere() -> None:
    assert answer("socketpair", AF_UNIX, STREAM | CLOEXEC) is Action.ALLOW
    assert answer("socketpair", AF_UNIX, SEQPACKET) is Action.ALLOW
    assert answer("socketpair", AF_UNIX, DGRAM) is Action.EAFNOSUPPORT
    assert answer("socketpair", AF_UNIX, DGRAM | CLOEXEC) is Action.EAFNOSUPPORT


@pytest.mark.parametrize("bit", [0o4000, 0o2000])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("chmod", (0,)),
        ("fchmod", (0,)),
        ("fchmodat", (0, 0)),
        ("fchmodat2", (0, 0)),
        ("creat", (0,)),
        ("mknod", (0,)),
        ("mknodat", (0, 0)),
        ("open", (0, 0o101)),
        ("openat", (0, 0, 0o101)),
        ("openat", (0, 0, 0o20200001)),
    ],
)
def test_no_file_can_be_made_to_run_as_its_owner(name: str, args: tuple[int, ...], bit: int) -> None:
    assert answer(name, *args, 0o755 | bit) is Action.EPERM
    assert answer(name, *args, 0o755) is Action.ALLOW


def test_what_lies_in_the_register_of_an_open_that_makes_nothing_is_no_mode() -> None:
    assert answer("openat", 0, 0, 0, 0o7777) is Action.ALLOW
    assert answer("open", 0, 0, 0o7777) is Action.ALLOW


def test_the_call_whose_mode_no_filter_sees_is_not_there() -> None:
    assert answer("openat2", 0, 0, 0, 0) is Action.ENOSYS


@pytest.mark.parametrize("name", ["mount", "unshare", "setns", "ptrace", "io_uring_setup", "bpf", "keyctl"])
def test_what_a_sandbox_refuses_a_guard_refuses(name: str) -> None:
    assert answer(name) is Action.EPERM


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("sockets", [False, True])
def test_it_can_be_assembled_for_every_machine(machine: str, *, sockets: bool) -> None:
    assert len(calls.program(machine, sockets=sockets)) % 8 == 0


def test_files_are_given_to_the_owner_of_the_folder_alone_and_only_root_is_told_so() -> None:
    rules = calls.rules(sockets=False, owner=(7001, 7002))
    unchanged = 0xFFFF_FFFF

    def chown(name: str, *args: int) -> Action:
        given = (*args, *([0] * (6 - len(args))))
        call = Call(arch=AUDIT_ARCHES["x86_64"], nr=numbers("x86_64")[name], args=given)
        return decide(rules, "x86_64", call)

    for name, before in (("chown", 1), ("lchown", 1), ("fchown", 1), ("fchownat", 2)):
        first = (0,) * before
        for user, group in ((7001, 7002), (unchanged, 7002), (7001, unchanged), (unchanged, unchanged)):
            assert chown(name, *first, user, group) is Action.ALLOW
        for user, group in ((0, 7002), (1001, unchanged), (7001, 0), (unchanged, 42), (7002, 7001)):
            assert chown(name, *first, user, group) is Action.EPERM
    assert answer("chown", 0, 1001, 42) is Action.ALLOW


def test_no_lease_can_be_taken() -> None:
    assert answer("fcntl", 3, 1024, 1) is Action.EPERM
    assert answer("fcntl", 3, 1) is Action.ALLOW
