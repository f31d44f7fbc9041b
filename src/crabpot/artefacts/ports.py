"""A published port of a rendered container: on the loopback of the host, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"

_PRIVILEGED = 1024
_HIGHEST = 65535
_WRITTEN = re.compile(r"(?:(?:(.+):)?([0-9]{1,5}):)?([0-9]{1,5})(?:/(tcp|udp))?", re.ASCII)
_OURS = (LOOPBACK, "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of the host's loopback that leads to one of the container's."""

    host: int
    container: int
    protocol: str = "tcp"

    @property
    def privileged(self) -> bool:
        """Return whether the program inside needs a capability to listen there."""
        return self.container < _PRIVILEGED


def parse(text: str) -> Port:
    """Parse `port`, `host:container` or `127.0.0.1:host:container`, with /tcp or /udp; ValueError says why not."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" must read port, host:container or {LOOPBACK}:host:container, in numbers')
    address, host, container, protocol = match.groups()
    if address not in (None, *_OURS):
        raise ValueError(f'"{text}": ports are published on {LOOPBACK} only; write {LOOPBACK}:host:container')
    numbers = int(host or container), int(container)
    if not all(0 < number <= _HIGHEST for number in numbers):
        raise ValueError(f'"{text}": a port is a number from 1 to {_HIGHEST}')
    return Port(host=numbers[0], container=numbers[1], protocol=protocol or "tcp")
