"""A server's answer as the result of a call: text as output, everything else as data, all of it bounded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crabpot.model import Failure, ToolResult

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from crabpot.model import Place, ToolCall


def as_result(call: ToolCall, answer: CallToolResult, place: Place, limit: int) -> ToolResult:
    """Return the result of a call: what the tool itself calls an error is a failed result with its text."""
    said = answer.model_dump(by_alias=True, exclude_none=True, mode="json")
    blocks = said.get("content") or []
    text = "\n".join(block["text"] for block in blocks if block.get("type") == "text")
    others = [block for block in blocks if block.get("type") != "text"]
    cut = text.encode("utf-8", "replace")
    data: dict[str, Any] = {} if not others else {"content": others}
    if isinstance(said.get("structuredContent"), dict):
        data["structured"] = said["structuredContent"]
    failed = bool(said.get("isError"))
    return ToolResult(
        id=call.id,
        success=not failed,
        stdout=text if len(cut) <= limit else cut[:limit].decode("utf-8", "ignore"),
        error=Failure(code="internal", message="the tool reports an error") if failed and not text else None,
        truncated=len(cut) > limit,
        data=data or None,
        place=place,
        duration_ms=call.took_ms(),
    )


def as_data(call: ToolCall, data: dict[str, Any], place: Place, limit: int) -> ToolResult:
    """Return an answer that is data alone. Half of it would look like all of it, so too much is an error."""
    if len(json.dumps(data)) > 2 * limit:
        return call.failed("output_limit", f"the answer is longer than limits.output ({limit} bytes)", place)
    return ToolResult(id=call.id, success=True, data=data, place=place, duration_ms=call.took_ms())
