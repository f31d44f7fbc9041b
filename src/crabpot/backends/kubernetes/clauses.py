"""How a cluster keeps each clause of a spec: enforced, degraded (and how), or refused. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crabpot.backends.base import Clause, Row, second_wall
from crabpot.backends.linux.limits import amount
from crabpot.layers import layer as layers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.backends.kubernetes.facts import Facts
    from crabpot.backends.kubernetes.inspection import Report
    from crabpot.spec.spec import SandboxSpec

_WAY_OUT = 'write workspace: "review", or "none" (kubernetes.storage keeps it) with crabpot cp for files'
_OURS = "through the gateway alone, on the stream to the runner"
_NETWORKS = {
    "none": "no packet enters or leaves",
    "internet": f"public addresses, of any name, are reached {_OURS}",
    "allow": f"the places listed, and no others, are reached {_OURS}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found out for one spec. A sentence in place of a value says why there is none."""

    facts: Facts | str
    report: Report | str | None = None
    refused: tuple[tuple[str, str], ...] = ()
    """What a live pod was found not to keep."""


def clauses(spec: SandboxSpec, found: Findings) -> tuple[Clause, ...]:
    """Return the table that explain, doctor and the audit log show."""
    rows = {name: (state, how) for name, state, how in _all(spec, found)}
    rows |= {name: ("refused", how) for name, how in found.refused}
    return tuple(Clause(name=name, state=state, how=how) for name, (state, how) in rows.items())


def refusals(spec: SandboxSpec) -> Iterator[Row]:
    """Yield what no cluster could keep."""
    if spec.layer is not None and (found := layers.read(spec.layer)) is not None and found.mechanism != "copy":
        do = f"crabpot changes apply|discard --session {found.session}, or use the bubblewrap backend"
        yield "workspace", "refused", f"this session's changes are in an overlay of this machine: {do}"
    if (not spec.private and spec.layer is None) or spec.agent_workspace is not None:
        folder = spec.agent_workspace or spec.workspace
        yield "workspace", "refused", f"a pod does not see {folder} of this machine: {_WAY_OUT}"
    if spec.mounts:
        yield "binds", "refused", f"a pod does not see {spec.mounts[0].source} of this machine: put it into the image"
    if spec.network.kind not in _NETWORKS:
        yield "network", "refused", 'a pod has "none", "internet" or { allow: [...] }'
    elif spec.network.proxied and spec.kubernetes.inet == "refuse":
        yield "network", "refused", 'inet: "refuse" leaves no socket to reach anything with: write inet: "policy"'


def _all(spec: SandboxSpec, found: Findings) -> Iterator[Row]:
    if isinstance(found.facts, str):
        yield "sandbox", "refused", found.facts
        return
    yield "sandbox", "enforced", f"a pod in {spec.kubernetes.namespace} of {found.facts.server}, {found.facts.version}"
    yield from _namespace(found.facts)
    impossible = tuple(refusals(spec))
    if impossible:
        yield from impossible
        return
    if isinstance(found.report, str):
        yield "sandbox", "refused", found.report
        return
    if found.report is not None:
        yield from _live(spec, found.report)
    yield _workspace(spec)
    yield from _limits(spec, found.report)


def _namespace(facts: Facts) -> Iterator[Row]:
    if facts.level == "restricted":
        yield "pod security", "enforced", "the namespace admits restricted pods alone, and these are"
    elif facts.level is None:
        yield "pod security", "degraded", "the namespace's level cannot be read; these pods are restricted all the same"
    else:
        mend = f"kubectl label namespace {facts.namespace} pod-security.kubernetes.io/enforce=restricted --overwrite"
        how = f'these pods are restricted, but the namespace admits "{facts.level}" ones: {mend}'
        yield "pod security", "degraded", how


def _live(spec: SandboxSpec, report: Report) -> Iterator[Row]:
    kernel = "gVisor's kernel" if report.gvisor else f"kernel {report.kernel}"
    yield "image", "enforced", f"{spec.kubernetes.image}, seen to run on {report.node} ({kernel})"
    yield "user", "enforced", f"{report.user.uid}:{report.user.gid}, seen inside"
    yield _namespaces(report)
    yield "capabilities", "enforced", "none, in no set, seen inside"
    yield "no-new-privileges", "enforced", "seen inside"
    under = "by gVisor's kernel" if report.gvisor else "over the cluster's own"
    yield "seccomp", "enforced", f"allow-list, taken by the runner before its first call, {under}"
    how = (
        "the image read-only; passwd and group of its own; /proc, /dev and /etc/hosts as the node's runtime mounts them"
    )
    yield "filesystem", "degraded", how
    yield _tmp(spec, report)
    yield second_wall(report.landlock)
    yield _network(spec)
    closed = "no socket" if spec.kubernetes.inet == "refuse" else "no packet"
    yield "interfaces", "degraded", f"lo, and the cluster's own, which {closed} passes"


def _namespaces(report: Report) -> Row:
    if report.gvisor:
        return "namespaces", "degraded", "a kernel of its own, gVisor's, but no user namespace in it"
    own, shared = ["mount", "pid", "ipc", "uts", "net"], []
    for seen, name, mend in (
        (report.own_users, "user", "kubernetes.hostUsers: false gives it one where the nodes can"),
        (report.own_control_groups, "cgroup", "a node with cgroup v2 gives it one"),
    ):
        if seen:
            own.append(name)
        else:
            shared.append(f"{name} ({mend})")
    how = f"of its own: {', '.join(own)}"
    if shared:
        return "namespaces", "degraded", f"{how}; the node's: {', '.join(shared)}"
    return "namespaces", "enforced", how


def _tmp(spec: SandboxSpec, report: Report) -> Row:
    sized = "private, in memory, sized"
    if spec.tmp_exec:
        return "tmp", "degraded", f"{sized}, but programs in it can be run, as configured (tmpExec)"
    if not report.noexec:
        return "tmp", "degraded", f"{sized}, but programs in it can be run: this kernel has no Landlock"
    return (
        "tmp",
        "degraded",
        f"{sized}, noexec by Landlock, which does not stop the loader from running a program in it",
    )


def _network(spec: SandboxSpec) -> Row:
    what = _NETWORKS[spec.network.kind]
    if spec.kubernetes.inet == "refuse":
        return (
            "network",
            "enforced",
            f"{what}: the filter leaves no internet socket, on the loopback neither, seen inside",
        )
    return "network", "enforced", f"{what}: a NetworkPolicy denies all, and was seen to hold on the pod"


def _workspace(spec: SandboxSpec) -> Row:
    if spec.layer is not None:
        how = "copy: sent into the pod, and what changed is brought back after each call; a lost pod's last is lost"
        return "workspace", "degraded", how
    storage = spec.kubernetes.storage
    if storage is not None:
        return (
            "workspace",
            "enforced",
            f"a volume claim of {amount(storage.size)} for each scope, which outlives its pod",
        )
    return "workspace", "degraded", "private, and gone with its pod: kubernetes.storage keeps it"


def _limits(spec: SandboxSpec, report: Report | str | None) -> Iterator[Row]:
    limits = spec.limits
    seen = report if report is not None and not isinstance(report, str) else None
    if seen is None or seen.memory_limited:
        yield "limits.memory", "enforced", f"{amount(limits.memory)} (control group{', seen inside' if seen else ''})"
    else:
        yield "limits.memory", "degraded", f"{amount(limits.memory)} was asked for, and is not seen inside"
    if seen is None or seen.cpu_limited:
        yield "limits.cpus", "enforced", f"{limits.cpus:g} (control group{', seen inside' if seen else ''})"
    else:
        yield "limits.cpus", "degraded", f"{limits.cpus:g} was asked for, and is not seen inside"
    yield _processes(spec, seen)
    yield "limits.openFiles", "enforced", f"{limits.open_files} for each process (RLIMIT_NOFILE)"
    yield "limits.fileSize", "enforced", f"{amount(limits.file_size)} for each file (RLIMIT_FSIZE)"
    yield "limits.tmp", "enforced", f"{amount(limits.tmp)} in /tmp, and as much in /var/tmp and in /dev/shm"
    if spec.kubernetes.storage is None or spec.layer is not None:
        how = f"{amount(limits.disk)}, which the kubelet looks at now and then: a pod beyond it is evicted"
        yield "limits.disk", "degraded", how
    else:
        yield "limits.disk", "enforced", f"{amount(spec.kubernetes.storage.size)}, the size of the volume"
    if limits.io.read is not None or limits.io.write is not None:
        yield "limits.io", "degraded", "not limited: a cluster has no such setting"
    yield "limits.timeLimit", "enforced", f"{limits.time_limit:g} s, then the call's whole tree is killed"


def _processes(spec: SandboxSpec, seen: Report | None) -> Row:
    most = spec.limits.pids
    if seen is not None and not seen.counted:
        return "limits.pids", "degraded", f"{most} was asked for, and this kernel was seen to count none"
    if spec.user is not None and (seen is None or not seen.own_users):
        return "limits.pids", "degraded", f"{most}, of every pod of this user on a node together (RLIMIT_NPROC)"
    return "limits.pids", "enforced", f"{most}, by a user id made from its scope key (RLIMIT_NPROC)"
