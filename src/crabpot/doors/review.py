"""The gateway that serves as the holder of layers: asked by another process, which has the files in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.decide.commands import is_deceptive, name_of
from crabpot.errors import CrabpotError, LayerBusy
from crabpot.host_commands.review.holding import placed_as
from crabpot.layers.store import LayerStore

if TYPE_CHECKING:
    from crabpot.doors.local.client import RemoteGateway
    from crabpot.gateway import Gateway
    from crabpot.layers.layer import Layer

INQUIRIES = ("layer commits", "layer land", "layer release")


def visible_diff(text: str) -> str:
    """Return a diff with whatever could deceive the eye in it shown by number; tabs and line ends stay."""
    return "".join(f"<{name_of(char)}>" if char not in "\t\n" and is_deceptive(char) else char for char in text)


class RemoteHolder:
    """A gateway in another process that has, or may open, the sandbox of a layer."""

    def __init__(self, remote: RemoteGateway) -> None:
        self._remote = remote

    async def commits(self, layer: Layer) -> list[dict[str, Any]]:
        """Return the commits of a layer."""
        return list(await self._remote.inquire("layer commits", scope_key=layer.scope_key))

    async def land(self, layer: Layer) -> list[str]:
        """Bring the commits of a layer to the person's repository."""
        return list(await self._remote.inquire("layer land", scope_key=layer.scope_key))

    async def release(self, layer: Layer) -> None:
        """End the idle sandbox that has the layer mounted."""
        try:
            await self._remote.inquire("layer release", scope_key=layer.scope_key)
        except CrabpotError as error:
            raise LayerBusy(str(error)) from None


async def nothing(gateway: Gateway, session: str | None) -> dict[str, Any]:
    """Return the list of changes of a session that changed nothing yet."""
    key = session or f"agent:{gateway.settings.default_agent}:main"
    agent, placed = placed_as(gateway.settings, key)
    spec, _ = gateway.execution.describe(agent, placed.scope_key or key)
    mechanism = await gateway.execution.registry.mechanism(spec)
    return {"session": key, "folder": spec.workspace, "mechanism": mechanism, "files": [], "commits": []}


async def answer(gateway: Gateway, inquiry: str, scope_key: str) -> Any:
    """Answer an inquiry of a remote holder."""
    layer = LayerStore(gateway.execution.around.state).find(scope_key)
    if layer is None:
        raise CrabpotError(f"there is no layer of {scope_key}")
    holder = gateway.review().holder
    if inquiry == "layer commits":
        return await holder.commits(layer)
    if inquiry == "layer land":
        return await holder.land(layer)
    await holder.release(layer)
    return None
