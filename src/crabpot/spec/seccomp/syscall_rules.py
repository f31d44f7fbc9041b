"""System call rules as data, and the action that they take on one call."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from crabpot.spec.seccomp.numbers import AUDIT_ARCHES, names

if TYPE_CHECKING:
    from collections.abc import Mapping

LOW_WORD = 0xFFFF_FFFF
MAX_ARGS = 6

# An x32 call is an x86_64 call with this bit in its number: the same kernel functions under other numbers,
# which a deny-list of the plain numbers would miss.
X32_BIT = 0x4000_0000

# A tracer outside the sandbox skips a call by setting its number to -1: no x32 call, and no reason to kill.
SKIPPED = 0xFFFF_FFFF


class Action(enum.IntEnum):
    """What the kernel does with a call; the value is what a seccomp filter returns for it."""

    KILL_PROCESS = 0x8000_0000
    """The whole process dies of SIGSYS."""
    EPERM = 0x0005_0001
    """The call fails: not permitted."""
    ENOSYS = 0x0005_0026
    """The call fails as if this kernel did not have it."""
    EPROTONOSUPPORT = 0x0005_005D
    """socket() fails as if the protocol's module did not exist."""
    EAFNOSUPPORT = 0x0005_0061
    """socket() fails as if the address family did not exist."""
    ALLOW = 0x7FFF_0000
    """The call is made."""

    @property
    def errno(self) -> int:
        """Return the errno that the caller sees. Only the E… answers have one; 0 would read as success."""
        if not self.name.startswith("E"):
            raise ValueError(f"{self.name} makes a call fail with no errno")
        return self.value & 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Bits:
    """One test of one argument: `args[index] & mask == value`.

    Only the low 32 bits can be tested. Every argument tested here is a 32-bit one to the kernel, which drops the upper
    half of the register. A filter that compares all 64 bits lets TIOCSTI through as 0x1_0000_5412 (CVE-2019-10063), and
    refuses honest callers that leave rubbish or a sign up there.
    """

    index: int
    value: int
    mask: int = LOW_WORD

    def __post_init__(self) -> None:
        if not 0 <= self.index < MAX_ARGS or self.mask & ~LOW_WORD or self.value & ~self.mask:
            raise ValueError(f"not a test of the low 32 bits of an argument: {self}")

    def holds(self, args: tuple[int, ...]) -> bool:
        """Return whether a call with these arguments passes this test."""
        return args[self.index] & self.mask == self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The answer to calls whose arguments pass every test."""

    when: tuple[Bits, ...]
    answer: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A call whose answer depends on its arguments: that of the first arm that applies."""

    arms: tuple[Arm, ...]
    otherwise: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One system call as the kernel shows it to a filter (struct seccomp_data)."""

    arch: int
    nr: int
    args: tuple[int, ...] = (0,) * MAX_ARGS


@dataclass(frozen=True, slots=True, kw_only=True)
class SyscallRules:
    """All rules of a sandbox, by name of call. A name in several sets gets the strictest of its answers."""

    allowed: frozenset[str]
    conditional: Mapping[str, Condition] = field(default_factory=lambda: MappingProxyType({}))
    refused: frozenset[str]
    absent: frozenset[str]

    def of(self, name: str) -> Action | Condition:
        """Return what these rules say of a call; what they do not name does not exist."""
        if name in self.refused:
            return Action.EPERM
        if name in self.absent:
            return Action.ENOSYS
        if name in self.conditional:
            return self.conditional[name]
        return Action.ALLOW if name in self.allowed else Action.ENOSYS

    def refusing(self, *names: str) -> SyscallRules:
        """Return stricter rules: these, with more calls refused."""
        return replace(self, refused=self.refused | frozenset(names))


def decide(rules: SyscallRules, machine: str, call: Call) -> Action:
    """Answer one call on a machine ("x86_64", "aarch64").

    A foreign entry point (32-bit, x32) kills instead of failing: no honest program reaches one by accident, a 32-bit
    program whose every call fails would spin or crash far from the cause, and libseccomp, which makes Docker's filters,
    kills too.
    """
    by_number = names(machine)
    if call.arch != AUDIT_ARCHES[machine]:
        return Action.KILL_PROCESS
    if machine == "x86_64" and X32_BIT <= call.nr != SKIPPED:
        return Action.KILL_PROCESS
    rule = rules.of(by_number.get(call.nr, ""))
    if isinstance(rule, Action):
        return rule
    applying = (arm.answer for arm in rule.arms if all(bits.holds(call.args) for bits in arm.when))
    return next(applying, rule.otherwise)
