"""One opening: from a spec to a pod that was looked at and whose runner waits, or to nothing at all."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from crabpot.backends.kubernetes import bundle as bundles
from crabpot.backends.kubernetes import inspection, naming, network, pods, remedy, render
from crabpot.backends.kubernetes.errors import ClusterError
from crabpot.backends.kubernetes.reviewing import Mirror
from crabpot.backends.kubernetes.stream import ExecStream
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from crabpot.backends.kubernetes.connection import Connection
    from crabpot.backends.kubernetes.inspection import Report
    from crabpot.spec.spec import SandboxSpec

_REPORT_S = 30.0


class Opened:
    """A pod whose runner waits on a stream."""

    def __init__(
        self, connection: Connection, pod: str, stream: ExecStream, report: Report, mirror: Mirror | None = None
    ) -> None:
        self.connection = connection
        self.pod = pod
        self.stream = stream
        self.report = report
        self.mirror = mirror

    async def close(self) -> None:
        """End the streams and the pod."""
        if self.mirror is not None:
            await self.mirror.close()
        await self.stream.close()
        await self.connection.remove_pod(self.pod)


async def open_pod(connection: Connection, spec: SandboxSpec) -> Opened:
    """Open it, or raise SandboxUnavailable and leave nothing behind, cancelled or not."""
    name = naming.pod(spec.name, os.urandom(3).hex())
    try:
        return await _open(connection, spec, name)
    except BaseException as error:
        await asyncio.shield(connection.remove_pod(name))
        if isinstance(error, ClusterError):
            raise remedy.explain(error, spec.kubernetes) from None
        raise


async def _open(connection: Connection, spec: SandboxSpec, name: str) -> Opened:
    bundle, user = bundles.make(spec), pods.user_of(spec, connection.uids.values())
    connection.uids[name] = user.uid
    if spec.certificates:
        connection.own_bundles[name] = naming.bundle(connection.owner.gateway, bundle.digest)
    owner = await connection.provide(spec, bundle)
    plan = render.PodPlan(name=name, gateway=connection.owner.gateway, owner=owner, user=user, bundle=bundle)
    made = await connection.cluster.post(connection.path("pods"), render.pod(spec, plan))
    pod = await pods.running(connection, made)
    if spec.kubernetes.inet == "policy":
        await network.check(connection, spec, pod)
    stream = await ExecStream.open(
        connection.cluster, f"{connection.path('pods', name)}/exec", render.exec_command(), container=naming.CONTAINER
    )
    try:
        said = await _report(stream)
        pods.hold_to(tuple(inspection.problems(said, user=user, spec=spec)))
        report = inspection.read(said, user=user, node=str(pod["spec"].get("nodeName")), spec=spec)
        # The runner waits: nothing of the agent's runs before its folder is there.
        mirror = None if spec.layer is None else await Mirror.open(connection, spec, name)
    except BaseException:
        await stream.close()
        raise
    return Opened(connection, name, stream, report, mirror)


async def _report(stream: ExecStream) -> dict[str, Any]:
    try:
        return await stream.report(_REPORT_S)
    except TimeoutError:
        raise SandboxUnavailable(f"the pod did not say what it is within {_REPORT_S:g} s") from None
    except EOFError as error:
        raise SandboxUnavailable(f"the runner did not start in the pod: {error}") from None
