"""Enforcement of one kind of NetworkPolicy on the lane's node: of one that denies everything to the pods that it selects.

No network plugin that enforces policies can be built from the registries (docs/kubernetes.md), so this does on the bridge what
such a plugin does on a node: it follows the policy and the pods in the API server, and has the kernel drop every packet from and
to the addresses of those selected, once they have one. It knows no rules, no ports and no other nodes.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import Cluster

BRIDGE, CHAIN, POLICY = "crabpot-k8s", "CRABPOT-LANE", "crabpot-deny-all"
_JUMP = ("PREROUTING", "-i", BRIDGE, "-j", CHAIN)


def table(*words: str, check: bool = True) -> None:
    """Change the rules for packets as they come in from the bridge, those from pod to pod among them."""
    subprocess.run(["iptables", "-w", "-t", "raw", *words], check=check, capture_output=True)


@contextlib.contextmanager
def enforced(cluster: Cluster) -> Iterator[None]:
    """Enforce the policy for as long as the block lasts."""
    _remove()
    table("-N", CHAIN)
    table("-I", *_JUMP)
    following = _Following(cluster)
    thread = threading.Thread(target=following.run)
    thread.start()
    try:
        yield
    finally:
        following.end()
        thread.join()
        _remove()


def _remove() -> None:
    for words in (("-D", *_JUMP), ("-F", CHAIN), ("-X", CHAIN)):
        table(*words, check=False)


class _Following:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._watch: subprocess.Popen[str] | None = None
        self._denied: set[str] = set()

    def run(self) -> None:
        """Follow until the end. A watch that ends, since its API server does, is begun again."""
        while not self._over.wait(0.5):
            selector = self._selector()
            if selector is not None:
                self._follow(selector)

    def end(self) -> None:
        self._over.set()
        if self._watch is not None:
            self._watch.terminate()

    def _selector(self) -> str | None:
        """Return which pods the policy selects, as kubectl takes it; None as long as there is none that denies all."""
        try:
            spec = json.loads(self._cluster.kubectl("get", "networkpolicy", POLICY, "-o", "json"))["spec"]
        except AssertionError:
            return None
        if set(spec) != {"podSelector", "policyTypes"} or set(spec["policyTypes"]) != {"Ingress", "Egress"}:
            return None
        wanted: list[dict[str, Any]] = spec["podSelector"]["matchExpressions"]
        assert {one["operator"] for one in wanted} == {"Exists"}
        return ",".join(one["key"] for one in wanted)

    def _follow(self, selector: str) -> None:
        shown = 'jsonpath={.type}{" "}{.object.status.podIP}{"\\n"}'
        words = ("-n", "crabpot", "get", "pods", "-l", selector, "--watch", "--output-watch-events", "-o", shown)
        with subprocess.Popen(self._cluster.argv(*words), stdout=subprocess.PIPE, text=True) as self._watch:
            assert self._watch.stdout is not None
            if self._over.is_set():
                self._watch.terminate()
            for line in self._watch.stdout:
                kind, _, address = line.strip().partition(" ")
                if address and (kind == "DELETED") is (address in self._denied):
                    self._turn(address)

    def _turn(self, address: str) -> None:
        do = "-D" if address in self._denied else "-A"
        for side in ("-s", "-d"):
            table(do, CHAIN, side, address, "-j", "DROP")
        self._denied ^= {address}
