"""Metrics for Prometheus: calls by tool, place and outcome, durations, live sandboxes, pending requests."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from crabpot.decide.tools import TOOLS
from crabpot.model import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.gateway import Gateway
    from crabpot.model import ToolCall, ToolResult, Verdict

CONTENT_TYPE = CONTENT_TYPE_LATEST

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_KNOWN = frozenset(TOOLS)


class Metrics:
    """The metrics of one gateway. Counting costs a call a few microseconds; the rest is computed when scraped."""

    def __init__(self, gateway: Gateway) -> None:
        # Not the library's global registry: a program may have several gateways.
        self._registry = CollectorRegistry()
        self._calls = Counter(
            "crabpot_calls",
            "Calls that ended, by tool, place and outcome (ok, failed, or the code of the error)",
            ("tool", "place", "outcome"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "crabpot_call_seconds",
            "How long calls took",
            ("tool", "place"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        # Few, and to find one by its labels takes longer than to count.
        self._series = cache(
            lambda tool, place, outcome: (
                self._calls.labels(tool, place, outcome),
                self._seconds.labels(tool, place),
            )
        )
        self._looked = _Looked(gateway)
        self._registry.register(self._looked)
        gateway.watch(self._count)

    def _count(self, call: ToolCall, result: ToolResult, _verdict: Verdict[Any]) -> None:
        # An agent chooses the tool's name: each new one would create a new series.
        tool = call.tool if call.tool in _KNOWN else "other"
        counted, observed = self._series(tool, result.place.value, result.outcome)
        counted.inc()
        observed.observe(result.duration_ms / 1000)

    def text(self, pending: int) -> bytes:
        """Return the metrics as text. On the gateway's own thread: sandboxes come and go."""
        self._looked.pending = pending
        return generate_latest(self._registry)


class _Looked(Collector):
    """Collects gauges when scraped."""

    pending = 0

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges."""
        live = self._gateway.execution.fleet.listed()
        sandboxes = sum(one.key[0] is Place.SANDBOX for one in live)
        yield GaugeMetricFamily("crabpot_sandboxes_alive", "Live sandboxes", sandboxes)
        busy = sum(bool(one.wire.busy) for one in live)
        yield GaugeMetricFamily("crabpot_sandboxes_busy", "Sandboxes and host runners with a call in them", busy)
        yield GaugeMetricFamily("crabpot_approvals_pending", "Requests pending for an operator", self.pending)
