"""The assembler of filters: rules to classic BPF, as the kernel and `bwrap --seccomp` take it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from crabpot.spec.seccomp.allowed import RULES
from crabpot.spec.seccomp.numbers import AUDIT_ARCHES, numbers
from crabpot.spec.seccomp.syscall_rules import LOW_WORD, SKIPPED, X32_BIT, Action, Bits, Condition, SyscallRules

if TYPE_CHECKING:
    from collections.abc import Iterator

# linux/bpf_common.h. Before the first look at an argument only these loads, jumps and returns may be used: the kernel
# (5.11 and newer) can run them once when the filter is loaded, to note the calls that are always allowed and never
# run the filter for them again.
_LOAD_WORD = 0x20
_AND = 0x54
_JUMP = 0x05
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_AT_LEAST = 0x35
_RETURN = 0x06

# The largest offset of a conditional jump.
_FARTHEST = 255

# Offsets in struct seccomp_data. Both machines are little-endian: an argument's low word comes first.
_NR, _ARCH, _ARGS = 0, 4, 16


class Instruction(NamedTuple):
    """One struct sock_filter; the jumps count instructions to skip."""

    code: int
    k: int
    if_true: int = 0
    if_false: int = 0


class _Span(NamedTuple):
    """The calls numbered from `first` up to the next span share one rule."""

    first: int
    rule: Action | Condition


def assemble(arch: str, *, rules: SyscallRules = RULES) -> bytes:
    """Return the filter for a machine ("x86_64", "aarch64"): an array of struct sock_filter, little-endian."""
    tree = _search(_spans(arch, rules))
    program = [
        Instruction(_LOAD_WORD, _ARCH),
        Instruction(_JUMP_IF_EQUAL, AUDIT_ARCHES[arch], if_true=1),
        Instruction(_RETURN, Action.KILL_PROCESS),
        Instruction(_LOAD_WORD, _NR),
        *tree,
    ]
    # A jump beyond 255 instructions does not fit its byte: pack raises, and no filter is made.
    return b"".join(struct.pack("<HBBI", op.code, op.if_true, op.if_false, op.k) for op in program)


def _spans(arch: str, rules: SyscallRules) -> list[_Span]:
    """Return spans that cover all numbers, in order, as few as the rules allow."""
    spans = [_Span(0, Action.ENOSYS)]

    def begin(first: int, rule: Action | Condition) -> None:
        if spans[-1].first == first:
            spans.pop()
        if not spans or spans[-1].rule is not rule:
            spans.append(_Span(first, rule))

    for number, name in sorted((number, name) for name, number in numbers(arch).items()):
        begin(number, rules.of(name))
        begin(number + 1, Action.ENOSYS)
    if arch == "x86_64":
        begin(X32_BIT, Action.KILL_PROCESS)
        begin(SKIPPED, Action.ENOSYS)
    return spans


def _search(spans: list[_Span]) -> list[Instruction]:
    """Return a binary search for the span of the loaded number."""
    if len(spans) == 1:
        rule = spans[0].rule
        return [Instruction(_RETURN, rule)] if isinstance(rule, Action) else list(_condition(rule))
    middle = len(spans) // 2
    below, above = _search(spans[:middle]), _search(spans[middle:])
    first = spans[middle].first
    if len(below) <= _FARTHEST:
        return [Instruction(_JUMP_IF_AT_LEAST, first, if_true=len(below)), *below, *above]
    far = [Instruction(_JUMP_IF_AT_LEAST, first, if_false=1), Instruction(_JUMP, len(below))]
    return [*far, *below, *above]


def _condition(condition: Condition) -> Iterator[Instruction]:
    """Yield the arms of a condition, each skipped as soon as one of its tests fails."""
    for arm in condition.arms:
        tests = [_test(bits) for bits in arm.when]
        rest = sum(len(test) for test in tests) + 1
        for test in tests:
            rest -= len(test)
            yield from test[:-1]
            yield test[-1]._replace(if_false=rest)
        yield Instruction(_RETURN, arm.answer)
    yield Instruction(_RETURN, condition.otherwise)


def _test(bits: Bits) -> list[Instruction]:
    mask = [] if bits.mask == LOW_WORD else [Instruction(_AND, bits.mask)]
    return [Instruction(_LOAD_WORD, _ARGS + 8 * bits.index), *mask, Instruction(_JUMP_IF_EQUAL, bits.value)]
