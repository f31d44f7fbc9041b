"""Traces from the command line: the standard environment names a collector, and it gets each call."""

from __future__ import annotations

from tests.support.collector import attributes, collecting


def test_a_one_shot_call_is_traced_before_the_program_ends(placed):
    with collecting() as collector:
        asked = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_SERVICE_NAME": "pots"}
        ended = placed("exec", "--", "echo traced", **asked)
        assert (ended.code, ended.out, ended.err) == (0, "traced\n", "")
        (span,) = (span for span in collector.spans() if not span.parent_span_id)
        assert (span.name, attributes(span)["crabpot.outcome"]) == ("execute_tool exec", "ok")
        assert collector.service() == "pots"
        assert placed("exec", "--", "true").code == 0
        assert len(collector.bodies) == 1
