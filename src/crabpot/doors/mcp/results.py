"""A tool's result as MCP content: text for the model, bytes as blobs and, where it is asked for, all of it as data."""

from __future__ import annotations

import json
import mimetypes
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)
from pydantic import TypeAdapter

from crabpot.decide.policy import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.model import ToolResult

# What clients show as images; other binary data is a resource.
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
# What clients play as audio, by the MIME type in this machine's table.
_SOUNDS = dict.fromkeys(("audio/wav", "audio/x-wav", "audio/vnd.wave"), "audio/wav") | {"audio/mpeg": "audio/mpeg"}
_BLOCK: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)
_UNKNOWN = "application/octet-stream"


def with_bytes(tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments; a picture is read as bytes, so that it arrives as a picture."""
    plain = canonical(tool) == "read" and not {"encoding", "offset", "limit"} & args.keys()
    if plain and mimetypes.guess_type(str(args.get("path")))[0] in _PICTURES:
        return {**args, "encoding": "base64"}
    return dict(args)


def as_mcp(result: ToolResult, session: str, args: Mapping[str, Any], *, structured: bool) -> CallToolResult:
    """Return a result as MCP content. Failures are errors that the model sees and can learn from.

    `structured`: all of it as data too. Clients then show the model that data instead of the text.
    """
    shaped = result.as_json()
    blob = _blob(shaped["data"], session, args)
    if blob is not None:
        # Sent only once: a file may be large.
        del shaped["data"]["content"]
    content: list[ContentBlock] = _blocks(shaped) if blob is None else [blob]
    text = _text(shaped)
    if text or not content:
        content.insert(0, TextContent(text=text))
    return CallToolResult(
        content=content, structured_content=shaped if structured else None, is_error=not result.success
    )


def _blocks(shaped: dict[str, Any]) -> list[ContentBlock]:
    """Take out of a result what an MCP server returned beside text: it is content again, and sent only once."""
    data = shaped["data"]
    if not isinstance(data, dict) or not isinstance(data.get("content"), list):
        return []
    shaped["data"] = {name: value for name, value in data.items() if name != "content"} or None
    return [_BLOCK.validate_python(block) for block in data["content"]]


def _blob(data: dict[str, Any] | None, session: str, args: Mapping[str, Any]) -> ContentBlock | None:
    if data is None or data.get("encoding") != "base64" or not isinstance(data.get("content"), str):
        return None
    path = str(args.get("path"))
    kind = mimetypes.guess_type(path)[0] or _UNKNOWN
    if kind in _PICTURES:
        return ImageContent(data=data["content"], mime_type=kind)
    if kind in _SOUNDS:
        return AudioContent(data=data["content"], mime_type=_SOUNDS[kind])
    # Not a file: URI, since the path is in the sandbox and not on the client's machine.
    address = f"crabpot://{quote(session, safe='')}/{quote(path.encode('utf-8', 'surrogateescape').lstrip(b'/'))}"
    return EmbeddedResource(resource=BlobResourceContents(uri=address, mime_type=kind, blob=data["content"]))


def _text(shaped: dict[str, Any]) -> str:
    """Return a short text for the model."""
    data, error = shaped["data"], shaped["error"]
    parts = [shaped["stdout"].removesuffix("\n")]
    if shaped["stderr"]:
        parts.append(f"[stderr]\n{shaped['stderr']}".removesuffix("\n"))
    if isinstance(data, dict) and isinstance(data.get("content"), str):
        parts.append(data["content"])
    elif data and data.get("encoding") != "base64":
        parts.append(json.dumps(data, ensure_ascii=False))
    if shaped["exit_code"]:
        parts.append(f"[exit code {shaped['exit_code']}]")
    if shaped["truncated"]:
        parts.append("[not all of it is shown]")
    if error is not None:
        parts.append(f"[{error['code']}] {error['message']}")
    return "\n".join(part for part in parts if part)
