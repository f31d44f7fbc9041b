"""One tool as a client sees it, and the schema of every tool's result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from crabpot.wire.replies import CODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. The hints are for a client's display; nothing is decided by them."""

    name: str
    title: str
    description: str
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    data: Mapping[str, Schema] = field(default_factory=dict)
    closed: bool = True
    read_only: bool = False
    destructive: bool = True
    idempotent: bool = False
    open_world: bool = False

    def input_schema(self) -> Schema:
        """Return the schema of its arguments."""
        made: Schema = {"type": "object", "properties": dict(self.properties)}
        if self.required:
            made["required"] = list(self.required)
        return made | {"additionalProperties": False} if self.closed else made

    def output_schema(self) -> Schema:
        """Return the schema of its result."""
        if not self.data:
            return RESULT
        found: Schema = {"type": ["object", "null"], "properties": dict(self.data)}
        return {**RESULT, "properties": {**RESULT["properties"], "data": found}}

    def also(self, sentence: str) -> Tool:
        """Return the same tool with one more sentence in its description."""
        return replace(self, description=f"{self.description} {sentence}") if sentence else self

    def as_json(self) -> dict[str, Any]:
        """Return what another process needs to offer the tool."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "input_schema": self.input_schema(),
            "output_schema": self.output_schema(),
            "hints": {
                "title": self.title,
                "readOnlyHint": self.read_only,
                "destructiveHint": self.destructive,
                "idempotentHint": self.idempotent,
                "openWorldHint": self.open_world,
            },
        }


RESULT: Schema = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "success": {"type": "boolean"},
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "exit_code": {"type": ["integer", "null"]},
        "error": {
            "type": ["object", "null"],
            "properties": {"code": {"type": "string", "enum": sorted(CODES)}, "message": {"type": "string"}},
            "required": ["code", "message"],
        },
        "truncated": {"type": "boolean"},
        "data": {"type": ["object", "null"]},
        "place": {"type": "string", "enum": ["sandbox", "host", "none"]},
        "duration_ms": {"type": "number"},
    },
    "required": "id success stdout stderr exit_code error truncated data place duration_ms".split(),
}
