"""What is read once from an engine: what it can enforce, and whether it shares this machine's kernel."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.runner.core import landlock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.backends.docker.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """An engine, in the terms of its own `version` and `info`."""

    version: str
    socket: str
    os_type: str = "linux"
    security: frozenset[str] = frozenset()
    cgroups: str = ""
    cpus: int = 1
    counts: Mapping[str, bool] = field(default_factory=dict)
    runtimes: frozenset[str] = frozenset()
    gvisor: frozenset[str] = frozenset()
    """The runtimes that are a kernel of their own, in a process of this one."""
    first_ids: tuple[int, int] | None = None
    """The host ids of uid and gid 0 inside, where the engine maps all users alike and reports it."""
    components: Mapping[str, str] = field(default_factory=dict)
    same_kernel: bool = True
    landlock: int = 0

    @property
    def rootless(self) -> bool:
        """Return whether it runs without root privileges."""
        return "rootless" in self.security

    @property
    def remapped(self) -> bool:
        """Return whether ids inside a container map to others outside."""
        return self.rootless or "userns" in self.security


async def find_out(engine: Engine) -> Facts:
    """Read the facts of an engine."""
    version = await engine.negotiate()
    info: dict[str, Any] = await engine.get("/info")
    limits = ("MemoryLimit", "SwapLimit", "CpuCfsQuota", "PidsLimit", "CPUShares", "MemoryReservation")
    # An engine in a virtual machine of its own has processes that this machine's /proc does not show.
    ours = info.get("KernelVersion") == os.uname().release and "Desktop" not in str(info.get("OperatingSystem"))
    return Facts(
        version=str(version.get("Version", "")),
        socket=engine.path,
        os_type=str(info.get("OSType", "")),
        security=frozenset(_security(info.get("SecurityOptions"))),
        cgroups=f"cgroup v{info.get('CgroupVersion', '1')}",
        cpus=max(int(info.get("NCPU") or 1), 1),
        # An engine that omits it has always supported it.
        counts={name: info.get(name, True) is not False for name in limits},
        runtimes=frozenset(info.get("Runtimes") or ()),
        gvisor=frozenset(name for name, one in (info.get("Runtimes") or {}).items() if "runsc" in f"{name} {one}"),
        first_ids=_first_ids(info),
        components={str(one.get("Name")): str(one.get("Version")) for one in version.get("Components") or ()},
        same_kernel=ours,
        landlock=landlock.version() if ours else 0,
    )


def _first_ids(info: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return them from the name of the folder in which an engine with userns-remap keeps everything."""
    found = re.search(r"/([0-9]{1,10})\.([0-9]{1,10})$", str(info.get("DockerRootDir")), re.ASCII)
    if found is None or "userns" not in _security(info.get("SecurityOptions")):
        return None
    return int(found[1]), int(found[2])


def _security(options: Any) -> list[str]:
    words = [str(one).split(",")[0] for one in options or ()]
    return [word.removeprefix("name=") for word in words]
