"""The variables that come from each caller of a lingering gateway, not from whoever happened to start it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crabpot.decide.scope import CALLER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.settings import Settings

# Sockets of the person's own session: they change with every login.
_ALWAYS = ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS")
_MOST, _LONGEST = 256, 128 * 1024


def brought(settings: Settings) -> frozenset[str]:
    """Return the names of the variables that a caller brings: its sockets, `passEnv` and the secrets by name."""
    agents = [settings.defaults, *settings.entries.values()]
    passed = {name for agent in agents for name in agent.tools.elevated.pass_env}
    injected = [one.value_from.env for agent in agents for one in agent.sandbox.network.inject]
    return frozenset({*_ALWAYS, *passed, *(name for name in injected if name is not None)})


def checked(given: Any, names: frozenset[str]) -> dict[str, str]:
    """Return what a caller brings, of these names alone."""
    items = given.items() if isinstance(given, dict) and len(given) <= _MOST else ()
    return {
        name: value
        for name, value in items
        if name in names and isinstance(value, str) and len(value) <= _LONGEST and "\0" not in value
    }


class CallersEnvironment(Mapping[str, str]):
    """The gateway's own environment, where some variables are those of whoever calls, or absent."""

    def __init__(self, own: Mapping[str, str], names: frozenset[str]) -> None:
        self.own = {name: value for name, value in own.items() if name not in names}
        self._names = names

    def __getitem__(self, name: str) -> str:
        return ((CALLER.get() or {}) if name in self._names else self.own)[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.own, *(CALLER.get() or {})])

    def __len__(self) -> int:
        return len(list(iter(self)))
