"""The system call filter of a guard: a sandbox's, minus sockets that reach services and minus setuid files."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MappingProxyType

from crabpot.spec.seccomp.allowed import AF_UNIX, RULES
from crabpot.spec.seccomp.bpf import assemble
from crabpot.spec.seccomp.syscall_rules import Action, Arm, Bits, Condition, SyscallRules

_TYPE, _STREAM, _SEQPACKET = 0xF, 1, 5
_S_ISUID, _S_ISGID = 0o4000, 0o2000

_F_SETLEASE, _UNCHANGED = 1024, 0xFFFF_FFFF
# Which argument of each call is the user; the group follows.
_CHOWNS = {"chown": 1, "lchown": 1, "fchown": 1, "fchownat": 2}
_O_CREAT, _O_TMPFILE = 0o100, 0o20000000

# Which argument of each call is the mode. openat2 passes it in memory, where no filter can look: programs fall back.
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
# The same for calls whose flags say whether they have a mode; without one, the register may hold anything.
_OPENS = {"open": 2, "openat": 3}


def _no_set_id(index: int, *flags: Bits) -> Condition:
    """Refuse setuid and setgid files: an agent's Makefile must not leave one of root's in the agent's folder."""
    arms = [
        Arm(when=(*([flag] if flag else []), Bits(index=index, mask=bit, value=bit)), answer=Action.EPERM)
        for flag in flags or (None,)
        for bit in (_S_ISUID, _S_ISGID)
    ]
    return Condition(arms=tuple(arms), otherwise=Action.ALLOW)


def _makes(index: int) -> tuple[Bits, ...]:
    return tuple(Bits(index=index, mask=flag, value=flag) for flag in (_O_CREAT, _O_TMPFILE))


def _pairs_only() -> dict[str, Condition]:
    """Refuse Unix sockets, except pairs that reach nobody else: a datagram socket can send to any address."""
    family = Bits(index=0, value=AF_UNIX)
    others = RULES.conditional["socket"]
    kinds = (_STREAM, _SEQPACKET)
    return {
        "socket": replace(others, arms=tuple(arm for arm in others.arms if family not in arm.when)),
        "socketpair": Condition(
            arms=tuple(
                Arm(when=(family, Bits(index=1, mask=_TYPE, value=kind)), answer=Action.ALLOW) for kind in kinds
            ),
            otherwise=Action.EAFNOSUPPORT,
        ),
    }


def _given_to(owner: tuple[int, int], index: int) -> Condition:
    """Allow chown only to the folder's owner: the next sandbox runs as whoever owns the agent's folder."""
    users, groups = ((_UNCHANGED, one) for one in owner)
    arms = [
        Arm(when=(Bits(index=index, value=user), Bits(index=index + 1, value=group)), answer=Action.ALLOW)
        for user in users
        for group in groups
    ]
    return Condition(arms=tuple(arms), otherwise=Action.EPERM)


def _without_leases() -> Condition:
    """Refuse file leases: even on a read-only file, one blocks every program of the host that opens the file."""
    before = RULES.conditional["fcntl"]
    return replace(before, arms=(Arm(when=(Bits(index=1, value=_F_SETLEASE),), answer=Action.EPERM), *before.arms))


def rules(*, sockets: bool, owner: tuple[int, int] | None = None) -> SyscallRules:
    """Return the rules: `sockets` if the pattern or the catalogue names one, `owner` if the guard runs as root."""
    chowns = {} if owner is None else {name: _given_to(owner, index) for name, index in _CHOWNS.items()}
    modes = {name: _no_set_id(index) for name, index in _MODES.items()}
    modes |= {name: _no_set_id(index, *_makes(index - 1)) for name, index in _OPENS.items()}
    conditional = {
        **RULES.conditional,
        **modes,
        **chowns,
        "fcntl": _without_leases(),
        **({} if sockets else _pairs_only()),
    }
    return replace(RULES, conditional=MappingProxyType(conditional), absent=RULES.absent | {"openat2"})


@cache
def program(machine: str, *, sockets: bool, owner: tuple[int, int] | None = None) -> bytes:
    """Return the filter for a machine ("x86_64", "aarch64")."""
    return assemble(machine, rules=rules(sockets=sockets, owner=owner))
