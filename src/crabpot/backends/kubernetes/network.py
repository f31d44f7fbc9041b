"""Whether a NetworkPolicy really holds on a pod: what it must not reach, it is seen not to reach.

Many network plugins ignore policies, and a cluster takes them all the same. So a listener runs in a pod of its own,
without a policy, and is reached from another such pod: the positive control, without which silence would prove nothing.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crabpot.backends.kubernetes import bundle as bundles
from crabpot.backends.kubernetes import naming, pods, render
from crabpot.backends.kubernetes.errors import ClusterError
from crabpot.backends.kubernetes.stream import ExecStream
from crabpot.errors import SandboxUnavailable

if TYPE_CHECKING:
    from crabpot.backends.kubernetes.connection import Connection
    from crabpot.spec.spec import SandboxSpec

_PORT = 8099
_ANSWER_S = 15.0
# A policy takes effect some time after a pod has its address.
_EFFECT_S = 20.0
_PAUSE_S = 0.5
_WAY_OUT = (
    'use a network plugin that enforces policies (Calico, Cilium), or kubernetes.inet: "refuse", which needs none'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The listener, for as long as the connection lives."""

    pod: str
    reached: tuple[str, ...]
    """What a pod without a policy reaches: the listener, the API server's service, the kubelet of its node."""
    stream: ExecStream


async def check(connection: Connection, spec: SandboxSpec, pod: dict[str, Any]) -> None:
    """Raise NotKept unless the pod reaches nothing, once the policy took effect."""
    async with connection.turn:
        if connection.control is None:
            connection.control = await _make_control(connection, spec)
    control = connection.control
    wanted = sorted({*control.reached, *_kubelet(pod)})
    deadline = asyncio.get_running_loop().time() + _EFFECT_S
    while reached := await reaching(connection, pod["metadata"]["name"], wanted):
        if asyncio.get_running_loop().time() > deadline:
            shown = ", ".join(reached)
            how = f"the NetworkPolicy {naming.POLICY} is not enforced: the pod reached {shown}; {_WAY_OUT}"
            raise pods.NotKept((("network", how),))
        await asyncio.sleep(_PAUSE_S)


def _kubelet(pod: dict[str, Any]) -> tuple[str, ...]:
    address = (pod.get("status") or {}).get("hostIP")
    return () if address is None else (f"tcp {address} 10250",)


async def _service(connection: Connection) -> tuple[str, ...]:
    """Return the address of the API server inside the cluster, which every pod is tempted by."""
    try:
        service = await connection.cluster.get("/api/v1/namespaces/default/services/kubernetes")
        return (f"tcp {service['spec']['clusterIP']} {service['spec']['ports'][0]['port']}",)
    except (ClusterError, KeyError, IndexError, TypeError):
        return ()  # Not everybody may read it.


async def reaching(connection: Connection, pod: str, addresses: list[str]) -> list[str]:
    """Return which of these addresses a pod reaches."""
    said = await told(connection, pod, "reach", *addresses)
    return [str(one) for one in said.get("reached") or ()]


async def told(
    connection: Connection, pod: str, action: str, *words: str, timeout_s: float = _ANSWER_S
) -> dict[str, Any]:
    """Run a program of ours in a pod, beside its runner, and return what it reports."""
    path = f"{connection.path('pods', pod)}/exec"
    command = render.probe_command(action, *words)
    stream = await ExecStream.open(connection.cluster, path, command, container=naming.CONTAINER)
    try:
        return await stream.report(timeout_s)
    except (TimeoutError, EOFError) as error:
        raise SandboxUnavailable(f"{action} in the pod did not answer: {error or 'too slow'}") from None
    finally:
        await stream.close()


async def _make_control(connection: Connection, spec: SandboxSpec) -> Control:
    """Start the listener in one pod, and see that another one reaches it."""
    made = [await _pod(connection, spec) for _ in range(2)]
    try:
        listener, other = [await pods.running(connection, one) for one in made]
        name = listener["metadata"]["name"]
        stream = await ExecStream.open(
            connection.cluster,
            f"{connection.path('pods', name)}/exec",
            render.probe_command("listen", str(_PORT)),
            container=naming.CONTAINER,
        )
        await stream.report(_ANSWER_S)
        address = str(listener["status"]["podIP"])
        listens = (f"tcp {address} {_PORT}", f"udp {address} {_PORT}")
        wanted = [*listens, *_kubelet(other), *await _service(connection)]
        reached = await reaching(connection, other["metadata"]["name"], wanted)
        how = f"no pod reaches anything, so it cannot be seen whether a policy is what keeps it; {_WAY_OUT}"
        pods.hold_to(() if reached else (("network", how),))
    except BaseException:
        await asyncio.shield(asyncio.gather(*(connection.remove_pod(one["metadata"]["name"]) for one in made)))
        raise
    await connection.remove_pod(made[1]["metadata"]["name"])
    return Control(pod=name, reached=tuple(reached), stream=stream)


async def _pod(connection: Connection, spec: SandboxSpec) -> dict[str, Any]:
    # It outlives the sandbox whose opening made it, and that one's certificates.
    bundle, user = bundles.make(replace(spec, certificates=())), pods.user_of(spec)
    owner = await connection.provide(spec, bundle)
    name = f"crabpot-control-{os.urandom(4).hex()}"
    plan = render.PodPlan(name=name, gateway=connection.owner.gateway, owner=owner, user=user, bundle=bundle)
    made: dict[str, Any] = await connection.cluster.post(connection.path("pods"), render.control(spec, plan))
    return made
