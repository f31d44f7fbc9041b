"""Compare the facts of a live sandbox with its spec, clause by clause: enforced, degraded or violated. Pure.

What comes from inside was reported by a sandbox that may lie; anything that is not a fact of the promised kind is a
violation, and where the host's kernel reports the same from outside, both must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from crabpot.backends.linux import limits as groups
from crabpot.backends.linux.procs import NAMESPACES
from crabpot.spec import hardening
from crabpot.spec.network import proxy_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crabpot.backends.base import Clause
    from crabpot.proof.verify.facts import Facts
    from crabpot.spec.spec import SandboxSpec

Verdict = Literal["enforced", "degraded", "violated"]

_OWN = (hardening.WORKSPACE, "/tmp", "/var/tmp", "/dev/shm", "/dev/pts", "/dev/mqueue", "/proc")  # noqa: S108  names inside
_CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_NO_CAPABILITY = "0" * 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that was promised, and what was found."""

    clause: str
    what: str
    promised: str
    found: str
    state: Verdict

    def as_json(self) -> dict[str, str]:
        """Return the JSON form that explain and the reports show."""
        return {name: getattr(self, name) for name in ("clause", "what", "promised", "found", "state")}


Row = tuple[str, str, str, str, bool]


def judge(facts: Facts, spec: SandboxSpec, clauses: Iterable[Clause], host: Mapping[str, str]) -> list[Fact]:
    """Judge every fact. `host` are the gateway's own namespaces, by name."""
    weak = {clause.name for clause in clauses if clause.state == "degraded"}
    try:
        rows = list(_rows(facts, spec, host))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        found = f"not a fact ({type(error).__name__}: {error})"
        rows = [("sandbox", "what it says of itself", "facts", found[:200], False)]
    return [
        Fact(clause=clause, what=what, promised=promised, found=found, state=_state(holds=holds, weak=clause in weak))
        for clause, what, promised, found, holds in rows
    ]


def _state(*, holds: bool, weak: bool) -> Verdict:
    if holds:
        return "enforced"
    return "degraded" if weak else "violated"


def _rows(facts: Facts, spec: SandboxSpec, host: Mapping[str, str]) -> Iterator[Row]:
    yield from _identity(facts, spec)
    yield from _namespaces(facts, spec, host)
    for name, promised in (("NoNewPrivs", "1"), ("Seccomp", "2")):
        clause = "no-new-privileges" if name == "NoNewPrivs" else "seccomp"
        yield from _both(clause, name, promised, facts)
    filters = str(facts.inside["status"]["Seccomp_filters"])
    yield "seccomp", "filters", "at least 1", filters, filters.isdigit() and int(filters) >= 1
    yield from _filesystem(facts, spec)
    yield from _network(facts, spec)
    names = sorted(str(name) for name in facts.inside["environment"])
    wanted = sorted({*spec.env, *(proxy_environment(spec.network) if spec.network.proxied else ())})
    # The interpreter that reads them adds what the shell exports: PWD, and how it was called.
    found = [name for name in names if name not in ("PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE")]
    yield "sandbox", "environment", " ".join(wanted), " ".join(found), found == wanted
    yield from _limits(facts, spec)


def _both(clause: str, name: str, promised: str, facts: Facts) -> Iterator[Row]:
    """Compare what is reported inside with what is seen from outside, where that can be seen."""
    found = [str(facts.inside["status"][name])]
    found += [facts.outside[name]] if facts.outside else []
    yield clause, name, promised, " and outside ".join(found), all(one == promised for one in found)


def _identity(facts: Facts, spec: SandboxSpec) -> Iterator[Row]:
    status = facts.inside["status"]
    for name in ("Uid", "Gid", "Groups"):
        inside = str(status[name]) or "none"
        outside = facts.outside.get(name, inside) or "none"
        fine = "0" not in inside.split() and "0" not in outside.split()
        number = None if spec.user is None else str(spec.user.uid if name == "Uid" else spec.user.gid)
        if number is not None and name != "Groups":
            fine = fine and set(inside.split()) == {number}
        yield "user", name, number or "not 0", f"{inside} and outside {outside}", fine
    for name in ("uid_map", "gid_map"):
        yield "user", name, "as the backend maps", str(facts.inside[name]), bool(facts.inside[name])
    for name in _CAPABILITIES:
        yield from _both("capabilities", name, _NO_CAPABILITY, facts)


def _namespaces(facts: Facts, spec: SandboxSpec, host: Mapping[str, str]) -> Iterator[Row]:
    for name in NAMESPACES:
        if name == "net" and spec.network.kind == "host":
            continue
        found = str(facts.inside["namespaces"][name])
        fine = found.startswith(f"{name}:[") and found != host.get(name)
        yield ("network" if name == "net" else "namespaces"), f"{name} namespace", "its own", found, fine


def _filesystem(facts: Facts, spec: SandboxSpec) -> Iterator[Row]:
    # If a place is mounted twice, the last mount counts.
    mounts = {str(one["place"]): (str(one["flags"]).split(","), str(one["kind"])) for one in facts.inside["mounts"]}
    writable = {*_OWN, *(mount.target for mount in spec.mounts if mount.access == "rw")}
    loose = [
        place
        for place, (flags, kind) in mounts.items()
        if "ro" not in flags and kind != "device" and place not in writable
    ]
    yield "filesystem", "mounts that are not its own", "read-only", " ".join(loose) or "all read-only", not loose
    root = mounts["/"][0]
    yield "filesystem", "/", "ro", ",".join(root), "ro" in root
    for place in ("/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108  names inside
        flags = mounts.get(place, ([], ""))[0]
        wanted = ("nosuid", "nodev", "noexec")
        yield "tmp", place, " ".join(wanted), ",".join(flags) or "no mount", set(wanted) <= set(flags)
        size = facts.inside["sizes"][place]
        most = int(spec.limits.tmp)
        yield "limits.tmp", f"size of {place}", f"at most {most}", str(size), isinstance(size, int) and 0 < size <= most
    for mount in spec.mounts:
        flags = mounts.get(mount.target, ([], ""))[0]
        yield "binds", mount.target, mount.access, ",".join(flags) or "no mount", mount.access in flags


def _network(facts: Facts, spec: SandboxSpec) -> Iterator[Row]:
    names = [str(name) for name in facts.inside["interfaces"]]
    if spec.network.kind in ("none", "internet", "allow"):
        # An old tunnel's name appears in every new namespace of some kernels; none of them is up.
        real = [name for name in names if name not in ("lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0")]
        clause = "interfaces" if spec.backend == "kubernetes" else "network"
        yield clause, "interfaces", "lo", " ".join(names), not real


def _limits(facts: Facts, spec: SandboxSpec) -> Iterator[Row]:
    reported: Mapping[str, Any] = facts.inside["limits"]
    for clause, name, most in (
        ("limits.openFiles", "NOFILE", spec.limits.open_files),
        ("limits.fileSize", "FSIZE", int(spec.limits.file_size)),
        ("sandbox", "CORE", 0),
    ):
        yield clause, f"RLIMIT_{name}", str(most), str(reported[name]), reported[name] == most
    yield from _grouped(facts, spec, reported)


def _grouped(facts: Facts, spec: SandboxSpec, reported: Mapping[str, Any]) -> Iterator[Row]:
    """Compare control groups of either version with their settings, and a process's limits where there is none."""
    limits = spec.limits
    ways = {
        "limits.memory": ("memory.limit_in_bytes", "memory.max", "RLIMIT_DATA"),
        "limits.pids": ("pids.max", "RLIMIT_NPROC"),
        "limits.cpus": ("cpu.cfs_quota_us", "cpu.max"),
    }
    if limits.memory_reservation is not None:
        ways["limits.memoryReservation"] = ("memory.soft_limit_in_bytes", "memory.low")
    if limits.cpu_shares is not None:
        ways["limits.cpuShares"] = ("cpu.shares", "cpu.weight")
    wanted = {one.file: one.value for kind in (groups.version_1, groups.version_2) for one in kind(limits, None)}
    wanted |= {"RLIMIT_DATA": str(int(limits.memory)), "RLIMIT_NPROC": str(limits.pids)}
    found = {**facts.groups, **{f"RLIMIT_{name}": str(reported[name]) for name in ("DATA", "NPROC")}}
    for clause, files in ways.items():
        there = [file for file in files if file in found]
        # Without a group of its own a sandbox is in the gateway's, whose settings say nothing about it.
        # RLIMIT_DATA is reported, but it limits each process, which is not what was promised.
        kept = [file for file in there if file != "RLIMIT_DATA" and _kept(found[file], wanted[file])]
        file = (*kept, *there, *files)[0]
        yield clause, file, wanted[file], found.get(file, "none"), bool(kept)
    for name, rate in (("read", limits.io.read), ("write", limits.io.write)):
        if rate is not None:
            said = facts.groups.get(f"blkio.throttle.{name}_bps_device") or facts.groups.get("io.max") or "none"
            yield "limits.io", f"{name} rate", str(int(rate)), said, str(int(rate)) in said.replace("=", " ").split()


def _kept(found: str, wanted: str) -> bool:
    """Compare numbers: an engine gives no more processors than there are, and the kernel counts in whole pages."""
    mine, theirs = found.split(), wanted.split()
    return len(mine) == len(theirs) and all(
        one.isdigit() and other.isdigit() and 0 < int(one) <= int(other)
        for one, other in zip(mine, theirs, strict=True)
    )
