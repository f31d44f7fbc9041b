"""A pod on its way: whom it runs as, and whether it came to run or why it will not."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from crabpot.backends.kubernetes import remedy
from crabpot.backends.kubernetes.errors import ClusterAway
from crabpot.errors import SandboxUnavailable
from crabpot.spec.spec import User

if TYPE_CHECKING:
    from collections.abc import Collection

    from crabpot.backends.kubernetes.connection import Connection
    from crabpot.spec.spec import SandboxSpec

_RUNNING_S = 120.0
# A node that is full now may have room in a moment: another sandbox is just ending.
_ROOM_S = 15.0
_AGAIN_S = 0.5
# A runtime that cannot make a user namespace tries again for ever.
_NAMESPACE_S = 30.0
# Above the ids of people and services; a cluster takes up to 2**31 - 1.
_FIRST_ID, _IDS = 1_000_000_000, 1_000_000_000
_IN_A_NAMESPACE = User(uid=1000, gid=1000)


class NotKept(SandboxUnavailable):
    """A live pod does not keep clauses of its spec."""

    def __init__(self, clauses: tuple[tuple[str, str], ...]) -> None:
        super().__init__("; ".join(f"{name}: {how}" for name, how in clauses))
        self.clauses = clauses


def hold_to(wrong: tuple[tuple[str, str], ...]) -> None:
    """Raise NotKept where a pod was seen not to keep clauses."""
    if wrong:
        raise NotKept(wrong)


def user_of(spec: SandboxSpec, taken: Collection[int] = ()) -> User:
    """Return whom a pod runs as: as configured, else an id made from its scope key, so that its processes are counted.

    Of the ids that are taken it gets none: a session key can be made that comes to the id of another's, and would then
    use up its processes. Not so with a claim, whose files are that id's. In a user namespace of its own, where few ids
    exist, any id is its own.
    """
    if spec.user is not None:
        return spec.user
    if spec.kubernetes.host_users is False:
        return _IN_A_NAMESPACE
    digest = hashlib.sha256(spec.scope_key.encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:4]) % _IDS
    while _FIRST_ID + number in taken and spec.kubernetes.storage is None:
        number = (number + 1) % _IDS
    return User(uid=_FIRST_ID + number, gid=_FIRST_ID + number)


async def running(connection: Connection, pod: dict[str, Any]) -> dict[str, Any]:
    """Wait until the container of a pod runs, and return the pod; SandboxUnavailable says why it does not."""
    began, seen = asyncio.get_running_loop().time(), pod
    name = pod["metadata"]["name"]
    try:
        async with asyncio.timeout(_RUNNING_S):
            while True:
                query = {"fieldSelector": f"metadata.name={name}", "timeoutSeconds": "20"}
                try:
                    async for event in connection.cluster.watch(connection.path("pods"), query):
                        if event.get("type") == "ERROR":
                            # Its object is no pod: the API server ends this watch, and takes another.
                            raise ClusterAway(str(event.get("object")))  # noqa: TRY301
                        seen = event.get("object") or seen
                        _judge(seen, event.get("type"), asyncio.get_running_loop().time() - began)
                        if _runs(seen):
                            return seen
                except ClusterAway:
                    await asyncio.sleep(_AGAIN_S)
                _judge(seen, None, asyncio.get_running_loop().time() - began)
    except TimeoutError:
        raise SandboxUnavailable(remedy.silent(seen, _RUNNING_S)) from None


def _judge(pod: dict[str, Any], event: object, waited_s: float) -> None:
    if event == "DELETED":
        raise SandboxUnavailable("the pod was deleted while it started")
    why = remedy.stuck(pod)
    if why is not None and (not why.startswith("no node") or waited_s > _ROOM_S):
        raise SandboxUnavailable(why)
    if waited_s > _NAMESPACE_S and (why := remedy.without_namespace(pod)) is not None:
        raise SandboxUnavailable(why)


def _runs(pod: dict[str, Any]) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return bool(statuses) and all("running" in (one.get("state") or {}) for one in statuses)
