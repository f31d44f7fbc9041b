"""What an operator approved of a server: every word that it said of its tools, kept whole and compared by digest."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.errors import CrabpotError
from crabpot.state.files import write_whole
from crabpot.state.ownership import make_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.settings import McpServer

    # A tool as its server describes it, in the protocol's own spelling.
    Described = Mapping[str, Any]

FOLDER = "servers"


def digest(value: object) -> str:
    """Return the SHA-256 of a value, the same in whatever order its keys are."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def origin(server: McpServer) -> str:
    """Return what identifies a server: a pin of one program says nothing about another."""
    return digest({"command": list(server.command or ()), "url": server.url})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One server as it was approved; `lock` is what its package was resolved to, None if it is no package."""

    origin: str
    tools: Mapping[str, Described]
    approved_at: float = field(default_factory=time.time)
    lock: Mapping[str, Any] | None = None

    def changed(self, tools: Mapping[str, Described]) -> dict[str, str]:
        """Return the tools that are not as they were approved, each with how."""
        said: dict[str, str] = {}
        for name, described in tools.items():
            if name not in self.tools:
                said[name] = "new"
            elif digest(described) != digest(self.tools[name]):
                said[name] = "changed"
        return said | dict.fromkeys((name for name in self.tools if name not in tools), "gone")


class Pins:
    """The pins of one state folder, which every gateway of it shares."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._folder = os.path.join(state, FOLDER)

    def find(self, name: str) -> Pin | None:
        """Return what was approved of a server, or None."""
        said = self._read(f"{name}.json")
        if said is None:
            return None
        try:
            return Pin(**said)
        except TypeError:
            raise CrabpotError(f"{self._folder}/{name}.json is damaged: approve the server {name} again") from None

    def version(self, name: str) -> tuple[object, ...]:
        """Return what is different once anything of a server was approved or withheld: its files are replaced whole."""
        return tuple(map(self._identity, (f"{name}.json", f"{name}.withheld.json")))

    def _identity(self, file: str) -> tuple[int, int, int] | None:
        try:
            facts = os.stat(os.path.join(self._folder, file))
        except FileNotFoundError:
            return None
        return facts.st_ino, facts.st_mtime_ns, facts.st_size

    def stamp(self) -> str:
        """Return what is another text once anything was approved or withheld."""
        try:
            with os.scandir(self._folder) as found:
                kept = sorted((one.inode(), one.stat().st_mtime_ns) for one in found if one.name.endswith(".json"))
        except FileNotFoundError:
            return ""
        return hashlib.sha256(repr(kept).encode()).hexdigest()

    def all(self) -> list[Pin]:
        """Return everything that was approved."""
        names = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        kept = [name.removesuffix(".json") for name in names if name.endswith(".json") and ".withheld." not in name]
        return [pin for pin in map(self.find, kept) if pin is not None]

    def keep(self, name: str, pin: Pin) -> None:
        """Keep what an operator approved; nothing is withheld any more."""
        said = {"origin": pin.origin, "tools": pin.tools, "approved_at": pin.approved_at, "lock": pin.lock}
        self._write(f"{name}.json", said)
        self.withhold(name, {})

    def withheld(self, name: str) -> dict[str, str]:
        """Return the tools of a server that are withheld until an operator looks at them, each with why."""
        return dict(self._read(f"{name}.withheld.json") or {})

    def withhold(self, name: str, tools: Mapping[str, str]) -> None:
        """Withhold tools of a server, in every gateway, until it is approved again."""
        if tools != self.withheld(name):
            self._write(f"{name}.withheld.json", dict(tools))

    def _read(self, file: str) -> dict[str, Any] | None:
        try:
            with open(os.path.join(self._folder, file), "rb") as stream:
                said = json.loads(stream.read())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CrabpotError(f"{self._folder}/{file} cannot be read: {error}") from None
        return said if isinstance(said, dict) else None

    def _write(self, file: str, said: Mapping[str, Any]) -> None:
        make_own(self._state)
        make_own(self._folder)
        write_whole(os.path.join(self._folder, file), json.dumps(said, ensure_ascii=True, indent=1) + "\n")
