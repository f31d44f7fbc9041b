"""OpenTelemetry spans of calls, if the standard environment variables ask for them: who, what, where and outcome."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

from crabpot.audit.records import readable
from crabpot.decide.tools import TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import TracerProvider

    from crabpot.gateway import Gateway
    from crabpot.model import ToolCall, ToolResult, Verdict

# OpenTelemetry is an optional extra, imported only on request.
# ruff: noqa: PLC0415

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SPOKEN = "http/protobuf"
_KNOWN = frozenset(TOOLS)
_SERVERS = "mcp.servers."


def trace(gateway: Gateway, environ: Mapping[str, str]) -> None:
    """Send a span for each call of a gateway if `environ` names a collector; print a note if that is impossible."""
    asked = next((name for name in _ENDPOINTS if environ.get(name)), None)
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    if asked is None or off:
        return
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _SPOKEN)
    if protocol != _SPOKEN:
        _note(f"{asked} asks for traces by {protocol!a}, but Crabpot supports only {_SPOKEN}")
        return
    try:
        tracer = Tracer(_provider())
    except ImportError:
        _note(f"{asked} asks for traces, but OpenTelemetry is not installed: install crabpot[otel]")
        return
    gateway.watch(tracer.ended, tracer.close)


class Tracer:
    """Turns finished calls into spans, which never contain a call's arguments or its output."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("crabpot")

    def ended(self, call: ToolCall, result: ToolResult, verdict: Verdict[Any]) -> None:
        """Create the span of a call as a child of its caller's span, with a child for each stage."""
        from opentelemetry.trace import StatusCode, set_span_in_context

        offset_ns = time.time_ns() - time.perf_counter_ns()

        def wall_ns(clock_s: float) -> int:
            return int(clock_s * 1e9) + offset_ns

        # An agent chooses this text: half a surrogate pair would lose every span of its batch.
        attributes: dict[str, str | int] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": readable(call.tool),
            "gen_ai.tool.call.id": call.id,
            "crabpot.session": readable(call.session),
            "crabpot.place": result.place.value,
            "crabpot.outcome": result.outcome,
            "crabpot.rule": readable(verdict.source),
        }
        if result.exit_code is not None:
            attributes["process.exit.code"] = result.exit_code
        # Backends group spans by name, so names must be few: our own tools, and what an operator approved of servers.
        approved = verdict.source.startswith(_SERVERS) and result.outcome != "denied"
        name = f"execute_tool {call.tool if approved or call.tool in _KNOWN else 'other'}"
        span = self._tracer.start_span(name, attributes=attributes, start_time=wall_ns(call.began))
        if result.error is not None:
            span.set_status(StatusCode.ERROR, result.error.code)
        inside = set_span_in_context(span)
        for stage in call.stages:
            below = self._tracer.start_span(stage.name, context=inside, start_time=wall_ns(stage.began))
            below.end(wall_ns(stage.ended))
        span.end(time.time_ns())

    async def close(self) -> None:
        """Send the spans that have not been sent yet."""
        await asyncio.to_thread(self._provider.shutdown)


def _provider() -> TracerProvider:
    """Return a provider set up from the environment. Not the global one: that belongs to an embedding program."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "crabpot"}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _note(what: str) -> None:
    print(f"crabpot: {what}; calls are not traced", file=sys.stderr)
