"""kube-router's firewall on the lane's node: what enforces NetworkPolicies in k3s and k0s, for as long as a block lasts.

The lane's network plugin enforces none, and other tests need to see that.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import Cluster

SERVICES = "10.124.0.0/24"
_FIREWALL_ALONE = ("--run-firewall=true", "--run-router=false", "--run-service-proxy=false")
_SILENT = ("--health-port=0", "--metrics-port=0")


@contextlib.contextmanager
def enforced(cluster: Cluster) -> Iterator[None]:
    """Have it follow the policies and the pods; nothing of its rules stays."""
    where = (
        f"--kubeconfig={cluster.kubeconfig}",
        "--hostname-override=localhost",
        f"--service-cluster-ip-range={SERVICES}",
    )
    argv = cluster.on_the_node("kube-router", *_FIREWALL_ALONE, *_SILENT, *where)
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: process.poll() is not None or _has_rules(cluster))
            assert process.poll() is None, f"{argv} ended"
            yield
        finally:
            process.terminate()
    for words in (("iptables", "-F"), ("iptables", "-X"), ("ipset", "destroy")):
        subprocess.run(cluster.on_the_node(*words), check=True, capture_output=True)


def _has_rules(cluster: Cluster) -> bool:
    shown = cluster.on_the_node("iptables", "-S", "KUBE-ROUTER-FORWARD")
    return subprocess.run(shown, check=False, capture_output=True).returncode == 0
