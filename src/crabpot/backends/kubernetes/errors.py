"""How a cluster fails to do what was requested. Apart from its client, which needs packages of the extra."""

from __future__ import annotations


class ClusterError(Exception):
    """The cluster did not do what was requested."""


class ClusterAway(ClusterError):
    """Its API server does not answer: not there, restarting, or too slow."""


class ClusterRefused(ClusterError):
    """It answered with an error; `reason` is the machine's word for it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
