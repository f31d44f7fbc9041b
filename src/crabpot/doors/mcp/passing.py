"""Resources and prompts of MCP servers, for an MCP client: each request becomes calls of the gateway."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.context import ServerRequestContext
    from mcp_types import GetPromptRequestParams, PaginatedRequestParams, ReadResourceRequestParams

    from crabpot.doors.any_gateway import AnyGateway
    from crabpot.doors.inflight import Calls
    from crabpot.doors.mcp.changes import Changes
    from crabpot.doors.mcp.server import Caller

    Context = ServerRequestContext[Any, Any]

# Two servers may use one address, so each address says whose it is.
_SCHEME = "crabpot-mcp://"


def kinds(names: list[str]) -> frozenset[str]:
    """Return what those calls pass on: `resources`, `prompts`, both or nothing."""
    return frozenset(name.partition("__")[2].partition("/")[0] for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """The requests of clients about resources and prompts."""

    gateway: AnyGateway
    calls: Calls
    caller: Callable[[Context], Caller]
    changes: Changes | None = None

    def handlers(self, passed: frozenset[str]) -> dict[str, Any]:
        """Return the handlers for what is passed on; a client is told of nothing else."""
        found: dict[str, Any] = {}
        if "resources" in passed:
            found |= {
                "on_list_resources": self._resources,
                "on_list_resource_templates": self._templates,
                "on_read_resource": self._read,
            }
        if "prompts" in passed:
            found |= {"on_list_prompts": self._prompts, "on_get_prompt": self._prompt}
        return found

    async def _resources(self, context: Context, _: PaginatedRequestParams | None) -> ListResourcesResult:
        found = await self._all(context, "resources/list", "resources", "uri")
        return ListResourcesResult.model_validate({"resources": found})

    async def _templates(self, context: Context, _: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        found = await self._all(context, "resources/templates/list", "resourceTemplates", "uriTemplate")
        return ListResourceTemplatesResult.model_validate({"resourceTemplates": found})

    async def _read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        server, found, uri = str(params.uri).removeprefix(_SCHEME).partition("/")
        if not found or not str(params.uri).startswith(_SCHEME):
            raise MCPError(INVALID_PARAMS, f"{params.uri} is not the address of a resource, as listed")
        data = await self._call(context, f"{server}__resources/read", {"uri": uri})
        contents = [{**one, "uri": f"{_SCHEME}{server}/{one['uri']}"} for one in data["contents"]]
        return ReadResourceResult.model_validate({"contents": contents})

    async def _prompts(self, context: Context, _: PaginatedRequestParams | None) -> ListPromptsResult:
        return ListPromptsResult.model_validate({"prompts": await self._all(context, "prompts/list", "prompts", None)})

    async def _prompt(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        server = params.name.partition("__")[0]
        args = {"name": params.name, **({} if params.arguments is None else {"arguments": dict(params.arguments)})}
        return GetPromptResult.model_validate(await self._call(context, f"{server}__prompts/get", args))

    async def _all(self, context: Context, method: str, what: str, address: str | None) -> list[dict[str, Any]]:
        """Ask all servers of the session at once. One that fails is left out: its error is in the audit log."""
        caller = self.caller(context)
        if self.changes is not None:
            await self.changes.follow(context)
        names = await self.gateway.passes(caller.session, host_allowed=caller.host_allowed)
        wanted = [name for name in names if name.partition("__")[2] == method]
        answers = await asyncio.gather(*(self._call(context, name, {}) for name in wanted), return_exceptions=True)
        found = []
        for name, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, MCPError):
                continue
            if isinstance(answer, BaseException):
                raise answer
            start = f"{_SCHEME}{name.partition('__')[0]}/"
            found += [one if address is None else {**one, address: f"{start}{one[address]}"} for one in answer[what]]
        return found

    async def _call(self, context: Context, name: str, args: dict[str, Any]) -> dict[str, Any]:
        caller = self.caller(context)
        calling = self.gateway.call(caller.session, name, args, sender=caller.sender, host_allowed=caller.host_allowed)
        result = await self.calls.start(calling)
        if result.error is not None or result.data is None:
            raise MCPError(INVALID_PARAMS, "no answer" if result.error is None else result.error.message)
        return dict(result.data)
