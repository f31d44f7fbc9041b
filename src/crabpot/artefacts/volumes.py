"""A folder of the host for a rendered container: `host:container[:options]`, parsed and judged."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from crabpot.spec import binds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crabpot.spec.binds import Surroundings
    from crabpot.spec.spec import Access, Mount

# The mount flags that restrict; no others are accepted.
_FLAGS = ("nosuid", "nodev", "noexec")
# What the container relies on, and the two folders that are in memory.
_TAKEN = ("/proc", "/sys", "/dev", "/tmp", "/run", "/var/run")  # noqa: S108  names inside the container

Flag = Literal["nosuid", "nodev", "noexec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A folder or file of the host at a path inside; `source` is absolute, with its links resolved."""

    source: str
    target: str
    access: Access
    flags: tuple[Flag, ...] = ()


def parse(text: str, around: Surroundings) -> Volume:
    """Parse one volume, or raise BindRefused with the reason and what would be right."""
    source, _, rest = text.partition(":")
    target, _, options = rest.partition(":")
    if not source or not target:
        raise binds.BindRefused(f'"{text}" must read host:container or host:container:options, as in :rw,nosuid,nodev')
    source = binds.expand(source, around.home)
    if not source.startswith("/"):
        raise binds.BindRefused(f'"{text}": the folder of the host must be an absolute path, or start with ~/')
    access, flags = _options(options, text)
    refusal = binds.refuse_volume(source, around)
    if refusal is None and access == "rw":
        refusal = binds.refuse_writing(source, around)
    if refusal is not None:
        raise binds.BindRefused(refusal)
    return Volume(source=os.path.realpath(source), target=_landing(target), access=access, flags=flags)


def gathered(volumes: Iterable[Volume], mounts: Iterable[Mount]) -> tuple[Volume, ...]:
    """Return the requested volumes and the spec's; two at one target are refused: the later would hide the first."""
    configured = [Volume(source=one.source, target=one.target, access=one.access) for one in mounts]
    made: dict[str, Volume] = {}
    for one in (*configured, *volumes):
        if made.setdefault(one.target, one) != one:
            raise binds.BindRefused(f"two folders would be mounted at {one.target}; choose another place for one")
    return tuple(made.values())


def _options(text: str, whole: str) -> tuple[Access, tuple[Flag, ...]]:
    words = text.split(",") if text else ["ro"]
    unknown = [word for word in words if word not in ("ro", "rw", *_FLAGS)]
    if unknown:
        known = ", ".join(("ro", "rw", *_FLAGS))
        raise binds.BindRefused(f'"{whole}": "{unknown[0]}" is none of {known}')
    if "ro" in words and "rw" in words:
        raise binds.BindRefused(f'"{whole}": either ro or rw')
    flags: tuple[Flag, ...] = ("nosuid", "nodev", "noexec")
    return "rw" if "rw" in words else "ro", tuple(flag for flag in flags if flag in words)


def _landing(target: str) -> str:
    landing = binds.normal(target)
    if not target.startswith("/") or ".." in target.split("/"):
        raise binds.BindRefused(f'"{target}" must be an absolute path inside, without ".."')
    for taken in _TAKEN:
        if landing in ("/", taken) or binds.is_under(landing, taken):
            raise binds.BindRefused(f'"{target}" is part of the container itself; choose another place such as /data')
    return landing
