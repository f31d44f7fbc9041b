"""Why a machine refuses to make a sandbox, and the exact command that changes it. Pure: text in, text out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
DEBIAN = "kernel/unprivileged_userns_clone"
MAXIMUM = "user/max_user_namespaces"
SWITCHES = (APPARMOR, DEBIAN, MAXIMUM)

_PROFILE = """\
sudo tee /etc/apparmor.d/crabpot-bwrap >/dev/null <<'EOF'
abi <abi/4.0>,
include <tunables/global>
profile crabpot-bwrap {path} flags=(unconfined) {{
  userns,
}}
EOF
sudo apparmor_parser -r /etc/apparmor.d/crabpot-bwrap"""


def explain(output: str, switches: Mapping[str, str], path: str) -> str:
    """Return what prevents it, given what bwrap printed and what the kernel's switches say."""
    said = _last_line(output)
    if switches.get(MAXIMUM) == "0":
        return f"user namespaces are switched off ({said}): sudo sysctl -w user.max_user_namespaces=15000"
    if switches.get(DEBIAN) == "0":
        return f"user namespaces are kept for root ({said}): sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if switches.get(APPARMOR) == "1":
        return (
            f"AppArmor keeps user namespaces from programs without a profile, as Ubuntu sets it ({said}); "
            f"give this one a profile:\n{_PROFILE.format(path=path)}"
        )
    if "No space left on device" in said:
        return f"too many user namespaces exist already ({said}): sudo sysctl -w user.max_user_namespaces=15000"
    if "source path" in said and "Permission denied" in said:
        return (
            f"the sandbox's user cannot reach what is to be mounted ({said}): "
            "keep --state and the workspace in folders that others may enter (chmod o+x)"
        )
    if "mount proc" in said:
        return (
            f"Crabpot runs in a container whose /proc is masked, and no other can be mounted beside it ({said}): "
            "start that container with --security-opt systempaths=unconfined (podman: --security-opt unmask=ALL)"
        )
    if "namespace" in said or "Operation not permitted" in said or "uid map" in said:
        return (
            f"something around Crabpot forbids user namespaces ({said}), such as a container's own filter: "
            "start that container with --security-opt seccomp=unconfined, or use the docker backend"
        )
    return said


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:400] if lines else "it printed nothing"
