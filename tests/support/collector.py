"""An OpenTelemetry collector on the loopback: takes spans by OTLP over HTTP, and decodes them with the protocol's own schema."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Collector:
    """What it took."""

    endpoint: str = ""
    bodies: list[bytes] = field(default_factory=list)

    def requests(self) -> list[Any]:
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    def spans(self) -> list[Any]:
        """List all spans, by the time at which they began."""
        scopes = [scope for one in self.requests() for resource in one.resource_spans for scope in resource.scope_spans]
        return sorted((span for scope in scopes for span in scope.spans), key=lambda span: span.start_time_unix_nano)

    def service(self) -> str:
        (name,) = {attributes(one.resource)["service.name"] for one in self.requests()[0].resource_spans}
        return str(name)


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    taken = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            right = (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            if right:
                taken.bodies.append(body)
            self.send_response(200 if right else 400)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Into nobody's output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        taken.endpoint = f"http://127.0.0.1:{server.server_port}"
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield taken
        finally:
            server.shutdown()
            serving.join()
