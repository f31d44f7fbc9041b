"""What a live pod is, by its own report before anything of the agent's ran in it: held to what was asked for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.spec import hardening

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crabpot.spec.spec import SandboxSpec, User

_PAGE = 4096
# As the kernel writes SECCOMP_MODE_FILTER.
_FILTERING = "2"
# A namespace that maps every id to itself is the node's own.
_WHOLE = ("0", "0", "4294967295")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A pod's report, as far as clauses tell it."""

    user: User
    node: str
    kernel: str
    own_users: bool
    own_control_groups: bool
    landlock: int
    noexec: bool
    filtered: bool
    gvisor: bool
    memory_limited: bool
    cpu_limited: bool
    counted: bool
    """Whether processes of a user are."""


def read(said: Mapping[str, Any], *, user: User, node: str, spec: SandboxSpec) -> Report:
    """Return what it means."""
    limits = said.get("limits") or {}
    return Report(
        user=user,
        node=node,
        kernel=str(said.get("kernel")),
        own_users=tuple(said.get("users") or ()) != _WHOLE,
        own_control_groups=said.get("control_groups") is True,
        landlock=int(said.get("landlock") or 0),
        noexec=said.get("noexec") is True,
        filtered=_is_filtered(said),
        gvisor=said.get("gvisor") is True,
        memory_limited=_is_limited(limits.get("memory"), int(spec.limits.memory)),
        cpu_limited=str(limits.get("cpu") or "max").split()[0] not in ("max", "-1"),
        counted=said.get("counted") is True,
    )


def problems(said: Mapping[str, Any], *, user: User, spec: SandboxSpec) -> Iterator[tuple[str, str]]:
    """Yield what is not as it was asked for, as (clause, how); such a pod is not used."""
    if (said.get("uid"), said.get("gid")) != (user.uid, user.gid):
        yield "user", f"it runs as {said.get('uid')}:{said.get('gid')}, not as {user.uid}:{user.gid}"
    if 0 in (said.get("groups") or ()):
        yield "user", "it is in the group root"
    if any(int(str(one), 16) for one in said.get("capabilities") or ("1",)):
        yield "capabilities", f"it has some: {said.get('capabilities')}"
    if said.get("privileges") != "1":
        yield "no-new-privileges", "it is not set"
    if not _is_filtered(said):
        yield "seccomp", "the kernel did not take the filter"
    yield from _mount_problems(said.get("mounts") or {}, spec)
    if said.get("account") is not False:
        yield "filesystem", "it has a service account's token"
    if spec.kubernetes.inet == "refuse" and said.get("inet") is not False:
        yield "network", "internet sockets can be made in spite of the filter"
    if said.get("processes") != 2:  # noqa: PLR2004  the one that waits, and the one that reports
        yield "namespaces", f"{said.get('processes')} processes are seen in it, before any was started"


def _mount_problems(mounts: Mapping[str, Any], spec: SandboxSpec) -> Iterator[tuple[str, str]]:
    for path in ("/", hardening.RUNNER, "/etc/passwd"):
        if "ro" not in (mounts.get(path) or ()):
            yield "filesystem", f"{path} is not read-only"
    for path in ("/tmp", spec.workspace_at):  # noqa: S108  a name inside the sandbox
        if path not in mounts:
            yield "filesystem", f"nothing is mounted at {path}"


def _is_filtered(said: Mapping[str, Any]) -> bool:
    """Return whether one filter more is in force than the cluster's own; kernels before 5.9 and gVisor's count none."""
    before, after = said.get("seccomp"), said.get("filters")
    if before is None:
        return said.get("mode") == _FILTERING
    return after is not None and int(after) > int(before)


def _is_limited(written: object, wanted: int) -> bool:
    text = str(written or "")
    return text.isdigit() and int(text) <= wanted + _PAGE
