"""The connections of one door: how many each principal may hold, and which goes when there are too many."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

# Of one principal, and of all together who have not yet said who they are.
MOST_EACH = 256
# No token can be called so.
STRANGERS = "<strangers>"


class Connection(Protocol):
    """What is counted here."""

    @property
    def peer(self) -> int | None:
        """The user at its other end, where the kernel says so."""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered on it: it is kept alive, or a request has not come whole."""

    def drop(self) -> None:
        """End it at once."""


class Connections:
    """By whose they are, least recently used first.

    Whoever connects is a stranger until a request names a principal, so half-open connections are strangers' alone. Of
    those the one that goes is the oldest of the user who has the most: another user of the machine pushes out its own
    connections, never one that the operator's browser has just opened.
    """

    def __init__(self, most_each: int = MOST_EACH) -> None:
        self._most = most_each
        self._held: dict[str, dict[Connection, None]] = {STRANGERS: {}}
        self._whose: dict[Connection, str] = {}

    def arrived(self, connection: Connection) -> None:
        """Count one of which nothing is known yet."""
        self._put(connection, STRANGERS)
        strangers = self._held[STRANGERS]
        if len(strangers) > self._most:
            most = Counter(one.peer for one in strangers).most_common(1)[0][0]
            self._drop(next(one for one in strangers if one.peer == most))

    def belongs(self, connection: Connection, name: str) -> None:
        """Count it, from this request on, among those of a principal; its idle ones go where there are too many.

        Those that are not idle are bounded by how many requests of a principal are answered at once.
        """
        self._put(connection, name)
        if len(self._held[name]) > self._most:
            idle = next((one for one in self._held[name] if one.idle and one is not connection), None)
            if idle is not None:
                self._drop(idle)

    def left(self, connection: Connection) -> None:
        """Forget one that has ended; safe to call twice."""
        name = self._whose.pop(connection, None)
        if name is not None:
            del self._held[name][connection]

    def _put(self, connection: Connection, name: str) -> None:
        self.left(connection)
        self._whose[connection] = name
        self._held.setdefault(name, {})[connection] = None

    def _drop(self, connection: Connection) -> None:
        self.left(connection)
        connection.drop()

    def count(self, name: str) -> int:
        """Count those of a principal, or the strangers'."""
        return len(self._held.get(name, ()))
