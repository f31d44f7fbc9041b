"""Why a machine refuses to make a sandbox, and the exact command that changes it. Pure: text in, text out."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from crabpot.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
DEBIAN = "kernel/unprivileged_userns_clone"
MAXIMUM = "user/max_user_namespaces"
SWITCHES = (APPARMOR, DEBIAN, MAXIMUM)

_LOADED = "/etc/apparmor.d/crabpot-bwrap"
PROFILE = (
    f"crabpot render apparmor --for bwrap | sudo tee {_LOADED} >/dev/null && sudo apparmor_parser --replace {_LOADED}"
)
_UNITS = "`crabpot render systemd` prints units that work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is around a bwrap that failed."""

    path: str = "/usr/bin/bwrap"
    switches: Mapping[str, str] = field(default_factory=dict)
    # AppArmor's profile that confines it, systemd's unit that the gateway runs in, and whether a filter is on us.
    profile: str | None = None
    unit: str | None = None
    filtered: bool = False


def explain(output: str, around: Circumstances) -> str:
    """Return what prevents it, given what bwrap printed and what is around it."""
    said = _last_line(output)
    return cause(said, around).replace("{said}", said)


def cause(said: str, around: Circumstances) -> str:
    """Return the same with `{said}` for bwrap's own words, in which one version differs from the next."""
    if around.switches.get(MAXIMUM) == "0":
        return "user namespaces are switched off ({said}): sudo sysctl -w user.max_user_namespaces=15000"
    if around.switches.get(DEBIAN) == "0":
        return "user namespaces are kept for root ({said}): sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if "No space left on device" in said:
        return "too many user namespaces exist already ({said}): sudo sysctl -w user.max_user_namespaces=15000"
    if "source path" in said and "Permission denied" in said:
        return (
            "the sandbox's user cannot reach what is to be mounted ({said}): "
            "keep --state and the workspace in folders that others may enter (chmod o+x)"
        )
    if around.filtered and "Function not implemented" in said:
        return f"a system call filter around Crabpot hides what bwrap needs ({{said}}){_filtered_by(around)}"
    if "mount proc" in said:
        return (
            f"a part of /proc is masked around Crabpot, so that no other can be mounted ({{said}}){_masked_by(around)}"
        )
    if "set hostname" in said and around.unit is not None:
        return f"the unit {around.unit} forbids host names ({{said}}): remove ProtectHostname= from it; {_UNITS}"
    refused = any(word in said for word in ("namespace", "Operation not permitted", "uid map"))
    # AppArmor answers with either.
    if refused or (around.profile is not None and "Permission denied" in said):
        return _refused(around)
    return "{said}"


def replacing(path: str) -> str:
    """Return the commands that put Crabpot's profile in place of another one for this bwrap."""
    return f"sudo aa-disable {path}, then {PROFILE}"


def _refused(around: Circumstances) -> str:
    if around.profile is not None:
        return (
            f'AppArmor\'s profile "{around.profile}" keeps {around.path} from making sandboxes ({{said}}): '
            f"{replacing(around.path)}"
        )
    if around.switches.get(APPARMOR) == "1":
        return (
            f"AppArmor keeps user namespaces from programs without a profile, as Ubuntu sets it ({{said}}): {PROFILE}"
        )
    if around.unit is not None and around.filtered:
        return (
            f"the unit {around.unit} forbids namespaces or mounts ({{said}}): remove RestrictNamespaces= and "
            f"SystemCallFilter= from it; {_UNITS}"
        )
    return (
        "something around Crabpot forbids user namespaces ({said}), such as a container's own filter: "
        "start that container with --security-opt seccomp=unconfined, or use the docker backend"
    )


def _filtered_by(around: Circumstances) -> str:
    if around.unit is None:
        return ", such as a container's: start that container with --security-opt seccomp=unconfined"
    return f": remove RestrictSUIDSGID= and SystemCallFilter= from the unit {around.unit}; {_UNITS}"


def _masked_by(around: Circumstances) -> str:
    if around.unit is None:
        return ": start its container with --security-opt systempaths=unconfined (podman: --security-opt unmask=ALL)"
    return (
        ": remove ProtectKernelTunables=, ProtectKernelLogs=, ProtectProc= and ProcSubset= from the unit "
        f"{around.unit}; {_UNITS}"
    )


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:400] if lines else "it printed nothing"
