"""Owns the calls that every rendering of the rules is asked about: all numbers, and the arguments worth trying."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from crabpot.spec.seccomp.allowed import CONDITIONAL
from crabpot.spec.seccomp.numbers import AUDIT_ARCHES, names, numbers
from crabpot.spec.seccomp.syscall_rules import X32_BIT, Call, Condition

if TYPE_CHECKING:
    from collections.abc import Iterator

MACHINES = tuple(AUDIT_ARCHES)
NUMBERS = range(601)
AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64 = 0x4000_0003, 0x4000_0028, 0xC000_00F3


def tried_values(condition: Condition, index: int) -> list[int]:
    """Values on, beside and far from every edge that a condition draws in one argument, with and without high bits."""
    tests = {(bits.mask, bits.value) for arm in condition.arms for bits in arm.when if bits.index == index}
    if not tests:
        return [0, 0xFFFF_FFFF_FFFF_FFFF]
    low = {0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, *range(48)}
    for mask, value in tests:
        low |= {value, value + 1, max(value - 1, 0), value | (~mask & 0xFFFF_FFFF)}
        low |= {(value ^ (1 << place)) & 0xFFFF_FFFF for place in range(32)}
    low = {value & 0xFFFF_FFFF for value in low}
    edges = {value for _, value in tests}
    return sorted(low | {value | 1 << 32 for value in edges} | {value | 0xFFFF_FFFF << 32 for value in edges})


def argument_calls(machine: str, name: str) -> Iterator[Call]:
    """Calls of one conditional name with every combination of values worth trying."""
    condition = CONDITIONAL[name]
    tested = sorted({bits.index for arm in condition.arms for bits in arm.when})
    # The full product of two arguments is too long to interpret; the second one keeps its edges and its neighbours.
    values = [tried_values(condition, index) for index in tested]
    if len(values) > 1:
        values[1:] = [[v for v in few if v < 70 or v % 7 == 0 or v > 1 << 30] for few in values[1:]]
    for combination in product(*values):
        args = [0xDEAD_BEEF_0BAD_F00D] * 6
        for index, value in zip(tested, combination, strict=True):
            args[index] = value
        yield Call(arch=AUDIT_ARCHES[machine], nr=numbers(machine)[name], args=tuple(args))


def native_calls(machine: str) -> Iterator[Call]:
    """Every number from 0 to 600 through the machine's own entry point; conditional ones with many arguments."""
    for nr in NUMBERS:
        name = names(machine).get(nr, "")
        if name in CONDITIONAL:
            yield from argument_calls(machine, name)
        else:
            for word in (0, 0xFFFF_FFFF_FFFF_FFFF):
                yield Call(arch=AUDIT_ARCHES[machine], nr=nr, args=(word,) * 6)


def odd_calls(machine: str) -> Iterator[Call]:
    """Numbers out of range, x32 numbers, and foreign entry points."""
    own = AUDIT_ARCHES[machine]
    high = (0x3FFF_FFFF, X32_BIT, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF)
    yield from (Call(arch=own, nr=nr) for nr in (*high, *(X32_BIT | nr for nr in NUMBERS)))
    foreign = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64, 0, *AUDIT_ARCHES.values()} - {own}
    yield from (Call(arch=arch, nr=nr) for arch in sorted(foreign) for nr in (*NUMBERS, *high))
