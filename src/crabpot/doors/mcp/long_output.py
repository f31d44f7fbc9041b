"""Output that is too long for a model: kept in a file inside, where the model can read on, and shown by both ends."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.model import Place

if TYPE_CHECKING:
    from crabpot.doors.any_gateway import AnyGateway
    from crabpot.doors.mcp.server import Caller
    from crabpot.model import ToolResult

_MOST, _END = 30_000, 7_000


async def fitted(gateway: AnyGateway, caller: Caller, result: ToolResult) -> ToolResult:
    """Return a result that a model can take in, with the way to the rest of it."""
    if len(result.stdout) + len(result.stderr) <= _MOST:
        return result
    return replace(
        result,
        stdout=await _shown(gateway, caller, result, "stdout", result.stdout),
        stderr=await _shown(gateway, caller, result, "stderr", result.stderr),
    )


async def _shown(gateway: AnyGateway, caller: Caller, result: ToolResult, stream: str, text: str) -> str:
    if len(text) <= _MOST // 2:
        return text
    where = await _kept(gateway, caller, stream, text) if result.place is Place.SANDBOX else None
    rest = "the rest was not kept" if where is None else f"all of it is in {where}, for read and grep"
    # Where it is comes last: clients cut the middle out of what is still too long for them.
    last = text[-_END:].removesuffix("\n")
    return f"{text[:_END]}\n[… {len(text) - 2 * _END} characters are not shown …]\n{last}\n[{rest}]"


async def _kept(gateway: AnyGateway, caller: Caller, stream: str, text: str) -> str | None:
    """Write it inside by the tool that the session has for that; where the policy denies it, it is not kept."""
    path = f"/tmp/{stream}-{secrets.token_hex(4)}.txt"  # noqa: S108  the sandbox's own, and no name that it could guess
    written = await gateway.call(caller.session, "write", {"path": path, "content": text}, sender=caller.sender)
    return path if written.success else None
