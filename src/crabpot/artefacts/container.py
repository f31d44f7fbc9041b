"""A container for an image of one's own, in the terms of the engine's API: the walls and limits of a live sandbox."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crabpot.backends.docker import render
from crabpot.backends.docker.render import Bind
from crabpot.decide.commands import is_deceptive, name_of
from crabpot.errors import CrabpotError
from crabpot.settings import MIB, Size
from crabpot.spec.spec import User

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crabpot.artefacts.ports import Port
    from crabpot.artefacts.volumes import Volume
    from crabpot.spec.spec import SandboxSpec

DEFAULT_USER = User(uid=1000, gid=1000)
DEFAULT_NAME = "crabpot-production"
IDLE = ("sleep", "infinity")
IDLE_HEALTH = "test -w /tmp"

_VAR_RUN = "/var/run"
_VAR_RUN_SIZE = Size(10 * MIB)
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}", re.ASCII)
_SECOND = 10**9


class NotRenderable(CrabpotError):
    """What was requested cannot be written down, or must not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person chose for one container; everything else is the spec's."""

    name: str
    image: str
    command: tuple[str, ...]
    user: User
    env: Mapping[str, str]
    volumes: tuple[Volume, ...]
    ports: tuple[Port, ...]
    health: str | None
    seccomp: str
    """The path of the profile: the command line client reads it and sends it."""
    disk: str | None = None


def body(spec: SandboxSpec, wanted: Wanted) -> dict[str, Any]:
    """Describe the container."""
    if not _NAME.fullmatch(wanted.name):
        raise NotRenderable(f'"{wanted.name}" cannot be the name of a container: letters, digits, "_", "." and "-"')
    _visible(_words(wanted))
    walls = render.walls(spec, seccomp=wanted.seccomp, apparmor=spec.docker.apparmor)
    made: dict[str, Any] = {
        "Image": wanted.image,
        "Cmd": list(wanted.command),
        "User": f"{wanted.user.uid}:{wanted.user.gid}",
        "Env": [f"{name}={value}" for name, value in sorted(wanted.env.items())],
        "HostConfig": {
            **walls,
            # Nobody is root inside, and a program that listens below 1024 has no other way.
            "CapAdd": ["NET_BIND_SERVICE"] if any(port.privileged for port in wanted.ports) else [],
            "Tmpfs": {**walls["Tmpfs"], _VAR_RUN: render.tmpfs(_VAR_RUN_SIZE)},
            # Not bounded by this machine's processors: the text may be for another.
            **render.limits(spec, cpus=math.inf, disk=wanted.disk),
            "Mounts": [_mount(one) for one in wanted.volumes],
            "NetworkMode": network(spec, wanted.ports),
            "PortBindings": {
                f"{port.container}/{port.protocol}": [{"HostIp": "127.0.0.1", "HostPort": str(port.host)}]
                for port in wanted.ports
            },
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}},
            "RestartPolicy": {"Name": "unless-stopped"},
        },
    }
    # A soft limit is what remains to it when the machine runs short; half, if nothing is configured.
    made["HostConfig"].setdefault("MemoryReservation", int(spec.limits.memory) // 2)
    if wanted.health is not None:
        made["Healthcheck"] = {
            "Test": ["CMD-SHELL", wanted.health],
            "Interval": 30 * _SECOND,
            "Timeout": 10 * _SECOND,
            "Retries": 3,
            "StartPeriod": 40 * _SECOND,
        }
    return made


def network(spec: SandboxSpec, ports: tuple[Port, ...]) -> str:
    """Return the docker network that it joins."""
    kind = spec.network.kind
    if kind in ("internet", "allow"):
        raise NotRenderable(
            f'network "{kind}" goes through the gateway, and a rendered container has none: write "none", "bridge", '
            "or a network of docker's own"
        )
    if kind == "host" and ports:
        raise NotRenderable('a container on the host\'s network publishes no ports; leave --port or network: "host"')
    return "bridge" if kind == "none" and ports else render.network_mode(spec)


def _mount(volume: Volume) -> dict[str, Any]:
    if not volume.flags:
        return render.mount(Bind(source=volume.source, target=volume.target, access=volume.access))
    # The engine has no flags for a bind; its local driver does, for a volume that is one.
    options = {"type": "none", "o": ",".join(("bind", volume.access, *volume.flags)), "device": volume.source}
    return {
        "Type": "volume",
        # Named after its content: an engine that has a volume of this name keeps its old definition.
        "Source": "crabpot-" + hashlib.sha256(repr(options).encode()).hexdigest()[:16],
        "Target": volume.target,
        # The driver has made it read-only; the runtime would do it again, and drop the other flags on the way.
        "ReadOnly": False,
        "VolumeOptions": {
            # Otherwise the engine would copy what the image has there into the host's folder.
            "NoCopy": True,
            "DriverConfig": {"Name": "local", "Options": options},
        },
    }


def _words(wanted: Wanted) -> Iterator[str]:
    yield from (wanted.image, wanted.seccomp, wanted.health or "", *wanted.command)
    yield from (f"{name}={value}" for name, value in wanted.env.items())
    for volume in wanted.volumes:
        yield from (volume.source, volume.target)


def _visible(words: Iterable[str]) -> None:
    """Refuse what a person who pastes it would not see, and what would move a terminal's cursor."""
    for word in words:
        for char in word:
            if is_deceptive(char):
                raise NotRenderable(
                    f"{word!a} contains a control, invisible or bidirectional character ({name_of(char)}); "
                    "nothing is rendered that cannot be seen"
                )
