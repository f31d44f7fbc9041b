"""Owns a classic BPF machine that runs seccomp filters as the kernel would, and counts."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crabpot.spec.seccomp.syscall_rules import Call

LD_ABS, JA, JEQ, JGT, JGE, JSET, AND, RET = 0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
JUMPS = {
    JEQ: lambda a, k: a == k,
    JGT: lambda a, k: a > k,
    JGE: lambda a, k: a >= k,
    JSET: lambda a, k: a & k != 0,
}
MAX_INSTRUCTIONS = 4096  # BPF_MAXINSNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a filter ended: its return value, how many instructions it took, and the words of the call it looked at."""

    value: int
    steps: int
    looked_at: frozenset[int]


def parse(program: bytes) -> list[tuple[int, int, int, int]]:
    """Read a program and refuse what the kernel would refuse: wrong opcodes, jumps out, no return at the end."""
    code = list(struct.iter_unpack("<HBBI", program))
    assert 0 < len(code) <= MAX_INSTRUCTIONS
    for at, (op, jt, jf, k) in enumerate(code):
        assert op in {LD_ABS, JA, AND, RET, *JUMPS}, f"opcode {op:#x}"
        if op == LD_ABS:
            assert k in range(0, 64, 4), f"load from {k}"
        if op in JUMPS:
            assert at + 1 + max(jt, jf) < len(code)
        if op == JA:
            assert at + 1 + k < len(code)
    assert code[-1][0] == RET
    return code


def run(code: list[tuple[int, int, int, int]], call: Call) -> Run:
    """Run a filter on one call."""
    data = struct.pack("<IIQ6Q", call.nr, call.arch, 0, *call.args)
    words = struct.unpack("<16I", data)
    accumulator = at = steps = 0
    looked_at = set()
    while True:
        op, jt, jf, k = code[at]
        at += 1
        steps += 1
        if op == LD_ABS:
            looked_at.add(k)
            accumulator = words[k // 4]
        elif op == RET:
            return Run(value=k, steps=steps, looked_at=frozenset(looked_at))
        elif op == AND:
            accumulator &= k
        elif op == JA:
            at += k
        else:
            at += jt if JUMPS[op](accumulator, k) else jf
