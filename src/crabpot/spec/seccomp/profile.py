"""The rules as a seccomp profile in JSON, as Docker takes it.

The profile must hold on engines that differ. Before 23, Docker silently drops `defaultErrnoRet` and answers EPERM to
all that a profile leaves out; so every call that should be ENOSYS is also named with its own `errnoRet`, which
20.10.10 and newer honour (moby pull requests 42604 and 42836). runc itself answers ENOSYS to numbers newer than any
named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crabpot.spec.seccomp.allowed import RULES
from crabpot.spec.seccomp.syscall_rules import Action, Bits, Condition, SyscallRules

# archMap, not `architectures`: Docker picks the entry of its own machine. With no sub-architectures,
# libseccomp kills 32-bit and x32 calls.
_ARCHITECTURES = ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")

_Region = Mapping[int, Bits]
"""A set of argument lists: those that pass one test for each of some arguments."""


def docker_profile(*, rules: SyscallRules = RULES) -> dict[str, object]:
    """Return the rules for `--security-opt seccomp=…` and for the engine's API."""
    every = sorted(rules.allowed | rules.refused | rules.absent | rules.conditional.keys())
    by_answer: dict[Action, list[str]] = {}
    conditional: list[dict[str, object]] = []
    for name in every:
        rule = rules.of(name)
        if isinstance(rule, Condition):
            conditional += (_entry([name], answer, region) for answer, region in _regions(rule))
        else:
            by_answer.setdefault(rule, []).append(name)
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": Action.ENOSYS.errno,
        "archMap": [{"architecture": name, "subArchitectures": []} for name in _ARCHITECTURES],
        "syscalls": [*(_entry(names, answer, {}) for answer, names in by_answer.items()), *conditional],
    }


def _entry(names: list[str], answer: Action, region: _Region) -> dict[str, object]:
    args = [
        {"index": bits.index, "op": "SCMP_CMP_MASKED_EQ", "value": bits.mask, "valueTwo": bits.value}
        for _, bits in sorted(region.items())
    ]
    if answer is Action.ALLOW:
        return {"names": names, "action": "SCMP_ACT_ALLOW", "args": args}
    return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": answer.errno, "args": args}


def _regions(condition: Condition) -> Iterator[tuple[Action, _Region]]:
    """Yield regions that cover all argument lists without overlap, each with its answer.

    A profile has no "otherwise" and no order: of two rules that apply, libseccomp takes either. Nor has it a "not
    equal" for some bits: SCMP_CMP_NE compares all 64, which is the hole that `Bits` describes.
    """
    left: list[_Region] = [{}]
    for arm in condition.arms:
        rest: list[_Region] = []
        for region in left:
            inside: _Region | None = region
            for bits in arm.when:
                if inside is not None:
                    inside, outside = _cut(inside, bits)
                    rest += outside
            if inside is not None:
                yield arm.answer, inside
        left = rest
    yield from ((condition.otherwise, region) for region in left)


def _cut(region: _Region, bits: Bits) -> tuple[_Region | None, list[_Region]]:
    """Return the part of a region that passes a test (None: nothing), and the rest: one per bit that can differ."""
    held = region.get(bits.index, Bits(index=bits.index, mask=0, value=0))
    if (held.value ^ bits.value) & held.mask & bits.mask:
        return None, [region]
    outside: list[_Region] = []
    for bit in (1 << place for place in reversed(range(32))):
        if bit & bits.mask & ~held.mask:
            mask = held.mask | bit
            wrong, right = (held.value | (bit & ~bits.value)), (held.value | (bit & bits.value))
            outside.append({**region, bits.index: Bits(index=bits.index, mask=mask, value=wrong)})
            held = Bits(index=bits.index, mask=mask, value=right)
    return {**region, bits.index: held}, outside
