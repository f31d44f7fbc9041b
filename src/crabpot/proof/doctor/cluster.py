"""What the doctor says of a cluster: its version, the rights in its namespace, its plugin and runtimes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.proof.doctor.lines import Line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.backends.kubernetes.facts import Survey

_AREA = "kubernetes"
_RENDER = "crabpot render kubernetes | kubectl apply -f -"


def look(found: Survey | str) -> Iterator[Line]:
    """Yield the lines of a cluster, or of why there is none."""
    if isinstance(found, str):
        yield Line(area=_AREA, name="cluster", state="problem", says="cannot be used, so no sandbox opens", fix=found)
        return
    yield Line(area=_AREA, name="cluster", state="ok", says=f"{found.version} at {found.server}")
    if found.lacking:
        says = f"missing in {found.namespace}: {', '.join(found.lacking)}"
        yield Line(area=_AREA, name="rights", state="problem", says=says, fix=_RENDER)
    else:
        yield Line(area=_AREA, name="rights", state="ok", says=f"all that sandboxes need in {found.namespace}")
    yield _level(found)
    plugin = found.plugin or "not seen"
    says = f"{plugin}; whether it enforces policies is tried on each pod (clause network)"
    yield Line(area=_AREA, name="network plugin", state="ok", says=says)
    listed = "cannot be listed" if found.runtimes is None else ", ".join(found.runtimes) or "none"
    yield Line(area=_AREA, name="RuntimeClasses", state="ok", says=f"{listed} (kubernetes.runtimeClass)")


def _level(found: Survey) -> Line:
    if found.level == "restricted":
        return Line(area=_AREA, name="pod security", state="ok", says=f"{found.namespace} enforces restricted")
    says = f"{found.namespace} enforces {found.level or 'a level that cannot be read'}, not restricted"
    return Line(area=_AREA, name="pod security", state="warning", says=says, fix=_RENDER)
