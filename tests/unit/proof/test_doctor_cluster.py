"""What the doctor says of a cluster: each right that is missing by name, and the level of its namespace."""

from __future__ import annotations

from dataclasses import replace

from crabpot.backends.kubernetes.facts import Survey
from crabpot.proof.doctor import cluster

GOOD = Survey(
    server="https://a:6443",
    version="v1.35.4",
    namespace="crabpot",
    level="restricted",
    lacking=(),
    runtimes=("gvisor",),
    plugin="cilium",
)


def test_a_good_cluster_is_told_with_its_version_plugin_and_runtimes() -> None:
    lines = {line.name: line for line in cluster.look(GOOD)}
    assert {line.state for line in lines.values()} == {"ok"}
    assert "v1.35.4" in lines["cluster"].says
    assert "cilium" in lines["network plugin"].says
    assert "gvisor" in lines["RuntimeClasses"].says


def test_missing_rights_and_another_level_are_told_with_what_to_do() -> None:
    found = replace(GOOD, lacking=("create pods/exec", "list leases"), level="baseline", runtimes=None)
    lines = {line.name: line for line in cluster.look(found)}
    assert (lines["rights"].state, lines["pod security"].state) == ("problem", "warning")
    assert "create pods/exec, list leases" in lines["rights"].says
    assert "crabpot render kubernetes" in (lines["rights"].fix or "")
    assert "cannot be listed" in lines["RuntimeClasses"].says


def test_no_cluster_is_a_problem_with_its_reason() -> None:
    (line,) = cluster.look("no cluster is known: set KUBECONFIG")
    assert (line.state, line.fix) == ("problem", "no cluster is known: set KUBECONFIG")
