"""The programs that make sandboxes: each bwrap, the Docker engine and its runc, gVisor. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crabpot.backends.bubblewrap import remedy
from crabpot.proof.doctor.lines import Line, State, version_of
from crabpot.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DAY_S = 86400.0
_OLD_IMAGE_DAYS = 60

# runc, newest release line first: the first version of each that has every fix listed.
_RUNC_FIXED = ((1, 4, 0), (1, 3, 3), (1, 2, 8))
_RUNC_HOLES = (
    ((1, 1, 12), "CVE-2024-21626 (a working folder that leads out)"),
    ((1, 2, 8), "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881 (masks and mounts raced)"),
)
# Before this the engine returns EPERM, not ENOSYS, for what a profile does not list, and new libraries break on it.
_ENGINE_ERRNO = (20, 10, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bwrap:
    """One bwrap: its version, why it must not or cannot be used, and, if it was chosen, what it was seen to do."""

    path: str
    version: str
    privileged: str | None = None
    failure: str | None = None
    chosen: bool = False
    seals: bool = False
    attaches: bool = False
    safe_below_links: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerEngine:
    """A Docker engine as it describes itself."""

    version: str
    socket: str
    components: Mapping[str, str]
    rootless: bool
    remapped: bool
    runtimes: frozenset[str]
    image: str
    image_age_s: float | None


def bubblewraps(found: tuple[Bwrap, ...], failure: str | None) -> Iterator[Line]:
    """Judge each bwrap, and report whether one opens a sandbox."""
    for one in found:
        line = _bwrap(one)
        # Where none works, the reason stands once, below them.
        yield line if failure is None or one.privileged else replace(line, fix=None)
    if failure is not None:
        yield Line(
            area="bubblewrap",
            name="sandbox",
            state="problem",
            says="no bwrap opens a sandbox here",
            fix=failure,
        )


def _bwrap(one: Bwrap) -> Line:
    says = f"{one.version} at {one.path}"
    if one.privileged is not None:
        return Line(area="bubblewrap", name="bwrap", state="warning", says=f"{says} is not used", fix=one.privileged)
    if one.failure is not None:
        return Line(area="bubblewrap", name="bwrap", state="warning", says=f"{says} opens no sandbox", fix=one.failure)
    if not one.chosen:
        return Line(area="bubblewrap", name="bwrap", state="ok", says=f"{says}, not needed")
    says += ", opens sandboxes"
    if not one.seals:
        fix = f"if AppArmor confines it: {remedy.replacing(one.path)}; else use the docker backend"
        says += ", but nothing that it starts may mount: programs in /tmp can be run"
        return Line(area="bubblewrap", name="bwrap", state="warning", says=says, fix=fix)
    if not one.safe_below_links:
        without = "Crabpot mounts without it" if one.attaches else "no bind inside another is mounted with it"
        says += f"; it follows planted links (CVE-2026-87766), so {without}"
        return Line(
            area="bubblewrap",
            name="bwrap",
            state="warning",
            says=says,
            fix="update bubblewrap to 0.12 or a version of your distribution with the fix",
        )
    return Line(area="bubblewrap", name="bwrap", state="ok", says=f"{says} and withstands CVE-2026-87766")


def engine(found: DockerEngine | str, *, needed: bool) -> Iterator[Line]:
    """Judge the engine; where nothing needs one, its absence is not a problem."""
    if isinstance(found, str):
        state: State = "problem" if needed else "ok"
        says = "the configuration needs an engine, and there is none" if needed else "none, and none is needed"
        yield Line(area="docker", name="engine", state=state, says=says, fix=found if needed else None)
        return
    kind = "rootless" if found.rootless else "ids remapped" if found.remapped else "run by root"
    says = f"{found.version} at {found.socket}, {kind}"
    if version_of(found.version) < _ENGINE_ERRNO:
        says += "; it answers unknown system calls with EPERM, on which new programs break"
        yield Line(area="docker", name="engine", state="warning", says=says, fix="update docker to 20.10.10 or newer")
    else:
        yield Line(area="docker", name="engine", state="ok", says=says)
    yield _runc(found.components.get("runc", ""))
    yield _gvisor(found.runtimes)
    yield _image(found)


def _runc(text: str) -> Line:
    version = version_of(text)
    if not version:
        says = "the engine does not say which runc it uses"
        return Line(area="docker", name="runc", state="warning", says=says, fix="docker version, then runc --version")
    line = next((fixed for fixed in _RUNC_FIXED if version[:2] >= fixed[:2]), _RUNC_FIXED[-1])
    if version >= line:
        return Line(area="docker", name="runc", state="ok", says=text)
    holes = "; ".join(hole for fixed, hole in _RUNC_HOLES if version < fixed) or _RUNC_HOLES[-1][1]
    return Line(
        area="docker",
        name="runc",
        state="warning",
        says=f"{text}: by its version vulnerable to {holes}",
        fix=f"update runc to {'.'.join(map(str, line))}, or see whether your distribution has backported the fixes",
    )


def _gvisor(runtimes: frozenset[str]) -> Line:
    found = sorted(runtimes & {"runsc", "kata", "kata-runtime"})
    says = (
        f'{", ".join(found)}: docker.runtime "{found[0]}" puts a second kernel in between'
        if found
        else ("not set up: a bug in the kernel is not caught by any other wall (docker.runtime)")
    )
    return Line(area="docker", name="gVisor, Kata", state="ok", says=says)


def _image(found: DockerEngine) -> Line:
    if found.image_age_s is None:
        says = f"{found.image} does not exist"
        return Line(area="docker", name="image", state="warning", says=says, fix="crabpot image build")
    days = int(found.image_age_s / _DAY_S)
    if days > _OLD_IMAGE_DAYS:
        says = f"{found.image} is {counted(days, 'day')} old, and so are the fixes in it"
        return Line(area="docker", name="image", state="warning", says=says, fix="crabpot image build")
    return Line(area="docker", name="image", state="ok", says=f"{found.image}, {counted(days, 'day')} old")
