"""What a server has besides tools, passed on as calls: `server__resources/read` and the like, under the same policy.

A list of resources is data that changes, so it comes without a server's own words about it. Prompts are words, and
are pinned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_types import (
    GetPromptRequest,
    GetPromptRequestParams,
    GetPromptResult,
    ListResourcesRequest,
    ListResourcesResult,
    ListResourceTemplatesRequest,
    ListResourceTemplatesResult,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.servers.offers import Offers
    from crabpot.servers.starting import Running
    from crabpot.settings import McpServer

RESOURCES = ("resources/list", "resources/templates/list", "resources/read")
PROMPTS = ("prompts/list", "prompts/get")
METHODS = frozenset({*RESOURCES, *PROMPTS})
_KEPT = ("uri", "uriTemplate", "name", "mimeType", "size")
_LONGEST_ADDRESS = 8192


class BadArguments(ValueError):
    """Arguments that no server was asked with; the message says what would be right."""


def methods(server: McpServer) -> tuple[str, ...]:
    """Return what is passed on of a server besides its tools."""
    return (*(RESOURCES if server.resources else ()), *(PROMPTS if server.prompts else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """One request that is passed on, and what the server offers."""

    method: str
    offers: Offers

    async def answer(self, running: Running, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the server's answer as data; BadArguments if the request is none."""
        connection, timeout_s = running.connection, running.limits.time_limit
        if self.method == "resources/list":
            return {"resources": await _listed(running, ListResourcesRequest, ListResourcesResult, "resources")}
        if self.method == "resources/templates/list":
            request, result = ListResourceTemplatesRequest, ListResourceTemplatesResult
            return {"resourceTemplates": await _listed(running, request, result, "resourceTemplates")}
        if self.method == "resources/read":
            reading = ReadResourceRequest(params=ReadResourceRequestParams(uri=_address(args)))
            answer = await connection.ask(reading, ReadResourceResult, timeout_s=timeout_s)
            return {"contents": _plain(answer)["contents"]}
        if self.method == "prompts/list":
            return {"prompts": [one.as_prompt() for one in self.offers.prompts.values()]}
        params = GetPromptRequestParams(name=self._prompt(args), arguments=_arguments(args))
        answer = await connection.ask(GetPromptRequest(params=params), GetPromptResult, timeout_s=timeout_s)
        return {"messages": _plain(answer)["messages"]}

    def _prompt(self, args: Mapping[str, Any]) -> str:
        offer = self.offers.prompts.get(str(args.get("name")))
        if offer is None:
            raise BadArguments(f"name is one of: {', '.join(self.offers.prompts) or 'none, as nothing is approved'}")
        return offer.tool


async def _listed(running: Running, request: Any, result: Any, what: str) -> list[dict[str, Any]]:
    if "resources" not in running.connection.offers:
        return []
    found = await running.connection.listed(request, result, what)
    return [{key: one[key] for key in _KEPT if key in one} for one in found]


def _plain(answer: Any) -> dict[str, Any]:
    made: dict[str, Any] = answer.model_dump(by_alias=True, exclude_none=True, mode="json")
    return made


def _address(args: Mapping[str, Any]) -> str:
    uri = args.get("uri")
    if not isinstance(uri, str) or not 0 < len(uri) <= _LONGEST_ADDRESS:
        raise BadArguments("uri is the address of a resource, as listed")
    return uri


def _arguments(args: Mapping[str, Any]) -> dict[str, str] | None:
    given = args.get("arguments")
    if given is None:
        return None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise BadArguments("arguments are an object whose values are text")
    return given
