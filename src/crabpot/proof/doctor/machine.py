"""Read from this machine what the doctor judges. Nothing is changed, and nothing unreadable is guessed."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import stat
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crabpot.audit.reading import AuditReader
from crabpot.backends.bubblewrap import candidates, surroundings
from crabpot.backends.linux import cgroup_hierarchy
from crabpot.backends.linux.kernel_files import read
from crabpot.errors import CrabpotError, SandboxUnavailable
from crabpot.proof.doctor.kernel import Kernel
from crabpot.proof.doctor.places import CheckedPath, Own
from crabpot.proof.doctor.programs import Bwrap, DockerEngine
from crabpot.runner.core import landlock

if TYPE_CHECKING:
    from crabpot.backends.bubblewrap.backend import Bubblewrap
    from crabpot.backends.docker.backend import Docker
    from crabpot.backends.kubernetes.backend import Kubernetes
    from crabpot.backends.kubernetes.facts import Survey
    from crabpot.settings import Kubernetes as Settings

_VERSION_TIMEOUT_S = 10.0


def kernel() -> Kernel:
    """Read what the kernel says of itself."""
    return Kernel(
        release=os.uname().release,
        root=os.geteuid() == 0,
        switches=surroundings.switches(),
        namespaces=frozenset(os.listdir("/proc/self/ns")),
        seccomp_actions=read("/proc/sys/kernel/seccomp/actions_avail"),
        landlock=landlock.version(),
        apparmor=surroundings.has_apparmor(),
        hierarchy=cgroup_hierarchy.discover(cgroup_hierarchy.Proc.here()),
        libseccomp=_libseccomp(),
        core_pattern=read("/proc/sys/kernel/core_pattern").strip(),
    )


def _libseccomp() -> bool:
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return False
    return True


async def bubblewraps(backend: Bubblewrap) -> tuple[tuple[Bwrap, ...], str | None]:
    """Return each bwrap, and why none opens a sandbox, if none does."""
    found = await backend.look()
    chosen = None if isinstance(found.chosen, str) else found.chosen
    listed = []
    for one in candidates.candidates():
        seen = chosen.program if chosen is not None and chosen.candidate == one else None
        listed.append(
            Bwrap(
                path=one.path,
                version=await _version(one.path),
                privileged=candidates.privileged(one.path),
                failure=found.passed_over.get(one.path),
                chosen=seen is not None,
                seals=seen is not None and seen.seals,
                attaches=seen is not None and seen.mounting == "attach",
                safe_below_links=seen is not None and seen.safe_below_links,
            )
        )
    return tuple(listed), found.chosen if isinstance(found.chosen, str) else None


async def _version(path: str) -> str:
    started = await asyncio.create_subprocess_exec(
        path,
        "--version",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        out, _ = await asyncio.wait_for(started.communicate(), _VERSION_TIMEOUT_S)
    except TimeoutError:
        started.kill()
        await started.wait()
        return "of unknown version"
    return out.decode("utf-8", "replace").strip().removeprefix("bubblewrap ") or "of unknown version"


async def engine(backend: Docker, image: str) -> DockerEngine | str:
    """Query the engine, or return why it does not answer."""
    try:
        facts, created = await backend.look_at(image)
    except SandboxUnavailable as refusal:
        return str(refusal)
    return DockerEngine(
        version=facts.version,
        socket=facts.socket,
        components=facts.components,
        rootless=facts.rootless,
        remapped=facts.remapped,
        runtimes=facts.runtimes,
        image=image,
        image_age_s=None if created is None else time.time() - datetime.fromisoformat(created).timestamp(),
    )


def own(config: str | None, state: str) -> Own:
    """Read the facts of Crabpot's own files."""
    room = state
    while not os.path.isdir(room):
        room = os.path.dirname(room)
    free = os.statvfs(room)
    record, verified = _records(state)
    names = sorted(os.listdir(state)) if os.path.isdir(state) else []
    places = (_place(os.path.join(state, name)) for name in names)
    return Own(
        uid=os.geteuid(),
        config=None if config is None else _place(os.path.realpath(config)),
        state=_place(state),
        sockets=tuple(place for place in places if place is not None and stat.S_ISSOCK(place.mode)),
        free_bytes=free.f_bavail * free.f_frsize,
        now=time.time(),
        last_record=None if record is None else record["time"],
        last_verify=None if verified is None else verified["time"],
        verify_held=verified is None or verified["held"],
    )


def _place(path: str) -> CheckedPath | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return CheckedPath(path=path, uid=found.st_uid, mode=found.st_mode)


def _records(state: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    reader = AuditReader(state)
    with contextlib.suppress(CrabpotError):
        last = reader.last(1)
        verified = reader.last(1, wanted=lambda record: record["kind"] == "verify" and not record.get("only"))
        return last[0] if last else None, verified[0] if verified else None
    return None, None


async def cluster(kubernetes: Kubernetes, settings: Settings) -> Survey | str:
    """Look at a cluster, or return why it cannot be looked at."""
    try:
        return await kubernetes.survey(settings)
    except SandboxUnavailable as refusal:
        return str(refusal)
