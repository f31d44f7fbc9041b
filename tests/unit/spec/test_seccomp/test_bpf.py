"""Claims about the assembled filter: it answers as the rules do, soon, and the kernel can know most answers ahead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.errors import SandboxUnavailable
from crabpot.spec.seccomp.allowed import RULES
from crabpot.spec.seccomp.bpf import assemble
from crabpot.spec.seccomp.numbers import AUDIT_ARCHES, numbers
from crabpot.spec.seccomp.syscall_rules import Action, Call, decide
from tests.unit.spec.test_seccomp import machine as bpf
from tests.unit.spec.test_seccomp.calls import MACHINES, native_calls, odd_calls

NR, ARCH = 0, 4
FILTERS = {machine: bpf.parse(assemble(machine)) for machine in MACHINES}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_answers_every_number_and_argument_as_the_rules_do(machine: str) -> None:
    for call in native_calls(machine):
        assert bpf.run(FILTERS[machine], call).value == decide(RULES, machine, call), call


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_answers_foreign_entry_points_as_the_rules_do(machine: str) -> None:
    for call in odd_calls(machine):
        assert bpf.run(FILTERS[machine], call).value == decide(RULES, machine, call), call


@given(
    machine=st.sampled_from(MACHINES),
    arch=st.sampled_from([*AUDIT_ARCHES.values(), 0x4000_0003]),
    nr=st.integers(0, 2**32 - 1) | st.integers(0, 600),
    args=st.tuples(*[st.integers(0, 2**64 - 1) | st.integers(0, 64)] * 6),
)
def test_the_filter_answers_any_call_as_the_rules_do(machine: str, arch: int, nr: int, args: tuple[int, ...]) -> None:
    call = Call(arch=arch, nr=nr, args=args)
    assert bpf.run(FILTERS[machine], call).value == decide(RULES, machine, call)


@given(machine=st.sampled_from(MACHINES), more=st.sets(st.sampled_from(sorted(RULES.allowed)), max_size=30))
def test_stricter_rules_make_a_filter_that_allows_nothing_new(machine: str, more: set[str]) -> None:
    stricter = bpf.parse(assemble(machine, rules=RULES.refusing(*more)))
    for name, nr in numbers(machine).items():
        call = Call(arch=AUDIT_ARCHES[machine], nr=nr)
        before, after = bpf.run(FILTERS[machine], call).value, bpf.run(stricter, call).value
        assert after == (Action.EPERM if name in more else before)


@pytest.mark.parametrize("name", ["read", "write", "close", "mmap", "futex", "openat", "newfstatat"])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_common_call_costs_a_dozen_instructions_at_most(machine: str, name: str) -> None:
    call = Call(arch=AUDIT_ARCHES[machine], nr=numbers(machine)[name])
    assert bpf.run(FILTERS[machine], call).steps <= 12


@pytest.mark.parametrize("machine", MACHINES)
def test_the_kernel_can_tell_ahead_which_calls_are_always_allowed(machine: str) -> None:
    # seccomp_is_const_allow() in kernel/seccomp.c follows a filter as long as it looks at nothing else.
    for name in RULES.allowed & numbers(machine).keys():
        call = Call(arch=AUDIT_ARCHES[machine], nr=numbers(machine)[name], args=(2**64 - 1,) * 6)
        assert bpf.run(FILTERS[machine], call).looked_at == {NR, ARCH}, name


@pytest.mark.parametrize("machine", MACHINES)
def test_a_filter_is_well_below_the_kernels_limit(machine: str) -> None:
    assert len(assemble(machine)) % 8 == 0
    assert len(FILTERS[machine]) < bpf.MAX_INSTRUCTIONS / 8


def test_an_unknown_machine_gets_no_filter() -> None:
    with pytest.raises(SandboxUnavailable, match="i686"):
        assemble("i686")
