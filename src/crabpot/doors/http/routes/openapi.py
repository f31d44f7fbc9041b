"""The OpenAPI description: schemas of bodies and responses, from the catalogue of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from crabpot import __version__
from crabpot.doors.http.access import refusals
from crabpot.tools.tool import RESULT as WHOLE_RESULT

if TYPE_CHECKING:
    from fastapi import FastAPI

    from crabpot.tools.tool import Tool

    Schema = dict[str, Any]

RESULT: Schema = {"$ref": "#/components/schemas/Result"}
TEXT: Schema = {"type": "string"}
_EVENT: Schema = {
    "type": "object",
    "properties": {"event": {"type": "string", "enum": ["output", "result"]}, "data": TEXT},
    "required": ["event", "data"],
}
_REFUSAL: Schema = {"$ref": "#/components/schemas/Refusal"}

# The refusals that any request may get.
_ALWAYS = {
    400: "Malformed request",
    401: "Missing or unknown token",
    403: "Not allowed for this principal, or denied by policy",
    413: "Body too large",
    421: "Wrong Host header",
    429: "Too many requests: retry after Retry-After seconds",
    503: "Too many connections, or the gateway is shutting down",
}


def answers(content: Schema | None, **more: str) -> dict[int | str, dict[str, Any]]:
    """Describe a route's responses: success, and every refusal. `s404="…"` adds one."""
    responses: dict[int | str, dict[str, Any]] = {200: {"description": "Done"}}
    if content is not None:
        responses[200]["content"] = content
    for status, description in {**_ALWAYS, **{int(name[1:]): said for name, said in more.items()}}.items():
        responses[status] = {"description": description, "content": json_of(_REFUSAL)}
    # The server itself responds to connections beyond the limit.
    responses[503]["content"] = {**json_of(_REFUSAL), "text/plain": {"schema": TEXT}}
    return responses


def results(tool: Tool | None) -> dict[int | str, dict[str, Any]]:
    """Describe a call's responses: a result, even if the status says that it was refused or could not run."""
    schema = RESULT if tool is None else tool.output_schema()
    streamed = {"text/event-stream": {"schema": _EVENT}}
    responses = answers({**json_of(schema), **streamed})
    either = {"anyOf": [RESULT, _REFUSAL]}
    for status in (400, 403, 503):
        responses[status]["content"] = {**responses[status]["content"], **json_of(either), **streamed}
    responses[408] = {"description": "The body did not arrive in time", "content": json_of(_REFUSAL)}
    responses[415] = {"description": "The body is not JSON", "content": json_of(_REFUSAL)}
    responses[500] = {"description": "The gateway could not run it", "content": {**json_of(either), **streamed}}
    return responses


def json_of(schema: Schema) -> Schema:
    """Return the description of a JSON response."""
    return {"application/json": {"schema": schema}}


def body_of(tool: Tool | None) -> Schema:
    """Describe the arguments of a call. Null means "not given", so an optional argument may be null."""
    schema: Schema = {"type": "object"}
    if tool is not None:
        schema = tool.input_schema()
        schema["properties"] = {
            name: one if name in tool.required else _or_null(one) for name, one in schema["properties"].items()
        }
    return {"requestBody": {"content": json_of(schema), "required": bool(tool and tool.required)}}


def _or_null(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    made = {**schema, "type": [*kinds, *([] if "null" in kinds else ["null"])]}
    return made | {"enum": [*made["enum"], None]} if "enum" in made else made


def described(app: FastAPI) -> Schema:
    """Return the whole description, cached."""
    if app.openapi_schema is None:
        made = get_openapi(
            title="Crabpot",
            version=__version__,
            description="A sandbox for AI agents' tool calls. Every route is a door of the same gateway.",
            routes=app.routes,
        )
        components = made.setdefault("components", {})
        components["schemas"] = {"Result": WHOLE_RESULT, "Refusal": refusals.SCHEMA}
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
        for methods in made["paths"].values():
            for operation in methods.values():
                # A request that does not validate is refused like any malformed one.
                operation["responses"].pop("422", None)
        app.openapi_schema = made
    return app.openapi_schema
