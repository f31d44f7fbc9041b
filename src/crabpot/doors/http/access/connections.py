"""The connections of one door: how many each principal may hold, and which is dropped when there are too many."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

# Per principal, and for all unauthenticated connections together.
MOST_EACH = 256
# No token can have this name.
STRANGERS = "<strangers>"


class Connection(Protocol):
    """A connection, as counted here."""

    @property
    def peer(self) -> int | None:
        """The user at its other end, if the kernel says so."""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered on it: it is kept alive, or a request is incomplete."""

    def drop(self) -> None:
        """Close the connection at once."""


class Connections:
    """The connections by principal, least recently used first.

    A connection belongs to strangers until a request names a principal. When strangers have too many, the oldest one of
    the user with the most is dropped: another user of the machine pushes out their own connections, never one that the
    operator's browser has just opened.
    """

    def __init__(self, most_each: int = MOST_EACH) -> None:
        self._most = most_each
        self._held: dict[str, dict[Connection, None]] = {STRANGERS: {}}
        self._whose: dict[Connection, str] = {}

    def arrived(self, connection: Connection) -> None:
        """Add a connection of which nothing is known yet."""
        self._put(connection, STRANGERS)
        strangers = self._held[STRANGERS]
        if len(strangers) > self._most:
            most = Counter(one.peer for one in strangers).most_common(1)[0][0]
            self._drop(next(one for one in strangers if one.peer == most))

    def belongs(self, connection: Connection, name: str) -> None:
        """Assign a connection to a principal; if it has too many, its idle ones are dropped.

        Those that are not idle are bounded by the limit on a principal's concurrent requests.
        """
        self._put(connection, name)
        if len(self._held[name]) > self._most:
            idle = next((one for one in self._held[name] if one.idle and one is not connection), None)
            if idle is not None:
                self._drop(idle)

    def left(self, connection: Connection) -> None:
        """Remove a connection that has ended; safe to call twice."""
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
        """Return the number of connections of a principal, or of strangers."""
        return len(self._held.get(name, ()))
