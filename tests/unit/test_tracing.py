"""Spans as a collector gets them: of every call, without what was in it, and only where they were asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from opentelemetry.sdk.trace import TracerProvider

from crabpot import tracing
from crabpot.approvals.requests import Answer
from crabpot.sandboxes.streams import Streams
from tests.support.collector import attributes, collecting

S = "agent:main:main"
SECRET = "hunter2-hunter2"


@pytest.fixture
def collector(monkeypatch):
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    with collecting() as made:
        # The rest of the environment is the SDK's own to read.
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.endpoint)
        yield made


def settings(tools):
    return f'{{agents: {{defaults: {{workspace: "WS"}}}}, tools: {tools}}}'


class Agrees:
    """An operator who says yes."""

    async def ask(self, _request):
        return Answer(allowed=True, by="test")


async def test_every_call_is_a_span_with_its_rule_place_and_outcome(bench, collector):
    began = time.time_ns()
    async with bench(settings('{deny: ["ls"]}')) as made:
        tracing.trace(made.gateway, os.environ)
        await made.gateway.call(S, "exec", command="exit 3")
        await made.gateway.call(S, "ls")
        result = await made.gateway.call(S, "read", path="missing")
    spans = [span for span in collector.spans() if not span.parent_span_id]
    assert [span.name for span in spans] == ["execute_tool exec", "execute_tool ls", "execute_tool read"]
    ran, denied, missing = map(attributes, spans)
    assert (ran["crabpot.session"], ran["crabpot.place"], ran["crabpot.outcome"]) == (S, "sandbox", "failed")
    assert (ran["gen_ai.tool.name"], ran["process.exit.code"]) == ("exec", 3)
    assert (denied["crabpot.place"], denied["crabpot.outcome"]) == ("none", "denied")
    assert "tools.deny[0]" in denied["crabpot.rule"]
    assert (missing["crabpot.outcome"], missing["gen_ai.tool.call.id"]) == ("not_found", result.id)
    assert [span.status.message for span in spans] == ["", "denied", "not_found"]
    took_ms = (spans[2].end_time_unix_nano - spans[2].start_time_unix_nano) / 1e6
    assert result.duration_ms <= took_ms + 1
    assert began <= spans[0].start_time_unix_nano <= spans[2].end_time_unix_nano <= time.time_ns()
    assert collector.service() == "crabpot"


async def test_opening_a_sandbox_and_waiting_for_a_person_are_spans_of_their_own(bench, collector):
    elevated = '{elevated: {enabled: true, patterns: ["pwd"]}}'
    async with bench(settings(elevated)) as made:
        made.workspace.mkdir()
        tracing.trace(made.gateway, os.environ)
        await made.gateway.call(S, "exec", command="true")
        await made.gateway.call(S, "exec", command="true")
        left = await made.gateway.call(S, "exec", {"command": "pwd"}, streams=Streams(approver=Agrees()))
        assert left.place.value == "host"
    whole = [span for span in collector.spans() if not span.parent_span_id]
    below = [span for span in collector.spans() if span.parent_span_id]
    opened, warm, out = whole
    assert [(span.name, span.parent_span_id) for span in below] == [("open", opened.span_id), ("approval", out.span_id)]
    assert warm.span_id not in {span.parent_span_id for span in below}
    for outer, inner in zip((opened, out), below, strict=True):
        assert outer.trace_id == inner.trace_id
        assert outer.start_time_unix_nano <= inner.start_time_unix_nano
        assert inner.end_time_unix_nano <= outer.end_time_unix_nano


async def test_nothing_that_was_given_or_came_back_is_in_a_span(bench, collector):
    async with bench() as made:
        tracing.trace(made.gateway, os.environ)
        await made.gateway.call(S, "write", path=SECRET, content=SECRET)
        await made.gateway.call(S, "read", path=SECRET)
        await made.gateway.call(S, "read", path=f"no-{SECRET}")
        await made.gateway.call(S, "exec", command=f"echo {SECRET}", env={"TOKEN": SECRET}, stdin=SECRET)
    assert len(collector.spans()) >= 4
    assert SECRET.encode() not in b"".join(collector.bodies)


async def test_names_that_an_agent_chooses_cost_no_other_span_and_make_no_new_kind(bench, collector):
    async with bench() as made:
        tracing.trace(made.gateway, os.environ)
        await made.gateway.call("agent:main:\ud800", "no\udfff-such" + "x" * 100_000)
        await made.gateway.call(S, "ls")
    odd, usual = (span for span in collector.spans() if not span.parent_span_id)
    assert (odd.name, usual.name) == ("execute_tool other", "execute_tool ls")
    assert attributes(odd)["crabpot.session"] == "agent:main:?"
    assert len(attributes(odd)["gen_ai.tool.name"]) < 5000


async def test_a_call_is_below_the_span_that_its_caller_is_in(bench, collector):
    async with bench() as made:
        tracing.trace(made.gateway, os.environ)
        with TracerProvider().get_tracer("embedding").start_as_current_span("turn") as turn:
            await made.gateway.call(S, "ls")
    (span,) = (span for span in collector.spans() if span.name == "execute_tool ls")
    assert int.from_bytes(span.trace_id, "big") == turn.get_span_context().trace_id
    assert int.from_bytes(span.parent_span_id, "big") == turn.get_span_context().span_id


async def test_a_collector_that_is_gone_costs_no_call(bench, monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    with collecting() as gone:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", gone.endpoint)
    async with bench() as made:
        tracing.trace(made.gateway, os.environ)
        assert (await made.gateway.call(S, "exec", command="echo on")).stdout == "on\n"
    assert "Failed to export" in caplog.text


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"OTEL_SDK_DISABLED": "true"}, ""),
        ({"OTEL_TRACES_EXPORTER": "none"}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ""),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "crabpot: OTEL_EXPORTER_OTLP_ENDPOINT asks for traces by 'grpc', but Crabpot supports only http/protobuf; calls are not traced\n",
        ),
    ],
)
async def test_what_turns_traces_off_does_and_what_cannot_be_is_said(bench, collector, capsys, more, note):
    async with bench() as made:
        tracing.trace(made.gateway, {**os.environ, **more})
        await made.gateway.call(S, "ls")
    assert collector.bodies == []
    assert capsys.readouterr().err == note


async def test_without_the_extra_calls_run_and_a_note_says_what_to_install(bench, collector, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    async with bench() as made:
        tracing.trace(made.gateway, os.environ)
        assert (await made.gateway.call(S, "ls")).success
    assert "install crabpot[otel]" in capsys.readouterr().err
    assert collector.bodies == []


def test_nothing_of_it_is_imported_where_it_was_not_asked_for():
    program = (
        "import sys\n"
        "from crabpot import tracing\n"
        "tracing.trace(None, {})\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
