"""OpenAI Agents: `CrabpotSandboxClient`, for `SandboxRunConfig(client=…)`.

May import: the Python API, and the framework, which is an extra.
Must never enter: decisions, another framework, and shell text where a method for files would do.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Literal

import crabpot
from crabpot.integrations.versions import require

require("openai-agents", "0.24", "0.25", extra="openai-agents")

from agents.sandbox.manifest import Manifest
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.session.sandbox_client import BaseSandboxClient, BaseSandboxClientOptions
from agents.sandbox.snapshot import resolve_snapshot
from pydantic import Field

from crabpot.integrations.openai_agents.session import CrabpotSandboxSession, CrabpotSandboxSessionState

if TYPE_CHECKING:
    from agents.sandbox.session import SandboxSession, SandboxSessionState
    from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec

__all__ = ["CrabpotSandboxClient", "CrabpotSandboxClientOptions"]


class CrabpotSandboxClientOptions(BaseSandboxClientOptions):
    """What is particular to one session.

    Attributes:
        exposed_ports: Ports of servers inside that `resolve_exposed_port` gives an address of the loopback for.
        settings: As for `crabpot.sandbox`: `{"network": "none", "limits": {…}}`.
    """

    type: Literal["crabpot"] = "crabpot"
    exposed_ports: tuple[int, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)


class CrabpotSandboxClient(BaseSandboxClient[CrabpotSandboxClientOptions | None]):
    """Makes sandboxes of Crabpot for agents: `SandboxRunConfig(client=CrabpotSandboxClient())`.

    Args:
        **settings: As for `crabpot.sandbox`: `network="none"`, `limits={…}`, `state="…"`.
    """

    backend_id = "crabpot"
    supports_default_options = True

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._instrumentation = Instrumentation()

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: CrabpotSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """Make a session."""
        given = options or CrabpotSandboxClientOptions()
        manifest = manifest or Manifest()
        self._validate_manifest_for_create(manifest)
        identity = uuid.uuid4()
        state = CrabpotSandboxSessionState(
            session_id=identity,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(identity)),
            exposed_ports=given.exposed_ports,
            name=f"openai-agents {identity}",
            settings={**self._settings, **given.settings},
        )
        return self._wrap_session(CrabpotSandboxSession(state=state), instrumentation=self._instrumentation)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """End a session's sandbox, and delete its files."""
        inner = session._inner  # noqa: SLF001  as every client of the framework does
        if not isinstance(inner, CrabpotSandboxSession):
            raise TypeError("CrabpotSandboxClient.delete expects a CrabpotSandboxSession")
        await inner.shutdown()
        where = inner.state.settings.get("state")
        await asyncio.to_thread(crabpot.delete_sandbox, inner.state.name, state=where)
        return session

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """Return a session with the sandbox of an earlier one, in whichever process that was."""
        if not isinstance(state, CrabpotSandboxSessionState):
            raise TypeError("CrabpotSandboxClient.resume expects a CrabpotSandboxSessionState")
        state.assert_path_grants_rebound()
        return self._wrap_session(CrabpotSandboxSession(state=state), instrumentation=self._instrumentation)

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """Read a state that was written down."""
        return self._deserialize_session_state_payload(payload, CrabpotSandboxSessionState)
