"""The sandboxes that programs have created by the E2B API: who owns each, until when, and what runs in it."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from crabpot.decide import placement, sessions
from crabpot.doors.http.access.refusals import Refusal
from crabpot.doors.http.context import CallRequest
from crabpot.doors.inflight import Sign
from crabpot.layers.snapshots import forget_all as forget_snapshots
from crabpot.model import Place
from crabpot.sandboxes import private_folders
from crabpot.spec.build import workspace_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabpot.doors.http.access.principals import Principal
    from crabpot.doors.http.access.tokens import Tokens
    from crabpot.doors.http.context import Context
    from crabpot.model import ToolResult
    from crabpot.sandboxes.streams import Streams
    from crabpot.settings import AgentSettings

MOST_EACH = 1000
LONGEST_S = 86_400


@dataclass(slots=True, kw_only=True, eq=False)
class Sandbox:
    """One sandbox of the API: a session of the gateway, with a secret of its own for the programs that use it."""

    id: str
    session: str
    owner: str
    # The digest of the API key: once that is rotated or removed, the sandbox's own secret is worth nothing.
    key: str
    template: str
    access: str
    metadata: Mapping[str, str]
    envs: Mapping[str, str]
    started: float
    ends: float
    ending: asyncio.TimerHandle | None = None
    # What ends with it: processes, watchers, kernels.
    parts: dict[str, Any] = field(default_factory=dict)
    closers: list[Callable[[], None]] = field(default_factory=list)


class Sandboxes:
    """The sandboxes of one gateway's E2B door."""

    def __init__(self, context: Context, tokens: Tokens) -> None:
        self.context = context
        self._tokens = tokens
        self._all: dict[str, Sandbox] = {}
        self._work: set[asyncio.Task[None]] = set()

    def add(self, principal: Principal, key: str, wanted: dict[str, Any]) -> Sandbox:
        """Add a sandbox, in a session of its own that the principal may use."""
        if len(self.owned(principal)) >= MOST_EACH:
            raise Refusal(429, "too_many", f"more than {MOST_EACH} sandboxes; kill some")
        identity = secrets.token_hex(10)
        session = principal.new_session(f"e2b-{identity}", default_agent=self.context.gateway.settings.default_agent)
        if session is None:
            raise Refusal(
                403,
                "forbidden",
                f"the token {principal.name} has no room for sandboxes; "
                "crabpot tokens add NAME --session 'agent:main:e2b:*' makes one that has",
            )
        now = time.time()
        made = Sandbox(
            id=identity,
            session=session,
            owner=principal.name,
            key=key,
            template=wanted["template"],
            access=secrets.token_urlsafe(32),
            metadata=wanted["metadata"],
            envs=wanted["envs"],
            started=now,
            ends=now + wanted["timeout"],
        )
        self._all[identity] = made
        self.limit(made, wanted["timeout"])
        return made

    def owned(self, principal: Principal) -> list[Sandbox]:
        """List a principal's own, the newest first."""
        return [one for one in reversed(self._all.values()) if one.owner == principal.name]

    def find(self, principal: Principal, identity: str) -> Sandbox:
        """Return a principal's own sandbox. Another's is not found, as if there were none."""
        found = self._all.get(identity)
        if found is None or found.owner != principal.name or not principal.may_use(found.session):
            raise Refusal(404, "not_found", f'sandbox "{identity[:64]}" was not found')
        return found

    def admitted(self, identity: str, access: str) -> tuple[Sandbox, Principal] | None:
        """Return the sandbox of a secret, and the principal whose it is now."""
        found = self._all.get(identity)
        if found is None or not hmac.compare_digest(found.access.encode(), access.encode("utf-8", "surrogatepass")):
            return None
        return self.owner_of(found)

    def owner_of(self, sandbox: Sandbox) -> tuple[Sandbox, Principal] | None:
        """Return a sandbox with its principal, unless its API key is no longer valid for it."""
        principal = self._tokens.of_digest(sandbox.key)
        return None if principal is None or not principal.may_use(sandbox.session) else (sandbox, principal)

    def by(self, matches: Callable[[Sandbox], bool]) -> Sandbox | None:
        """Return the first that matches."""
        return next((one for one in self._all.values() if matches(one)), None)

    def limit(self, sandbox: Sandbox, timeout_s: int) -> None:
        """Have a sandbox end after this time from now."""
        if sandbox.ending is not None:
            sandbox.ending.cancel()
        sandbox.ends = time.time() + timeout_s
        sandbox.ending = asyncio.get_running_loop().call_later(timeout_s, self._expire, sandbox)

    def _expire(self, sandbox: Sandbox) -> None:
        task = asyncio.create_task(self.kill(sandbox))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def kill(self, sandbox: Sandbox) -> None:
        """End a sandbox and all that runs in it, and delete what only it could reach."""
        if self._all.pop(sandbox.id, None) is None:
            return
        if sandbox.ending is not None:
            sandbox.ending.cancel()
        for close in sandbox.closers:
            close()
        scope_key = self._scope_key(sandbox)
        # With another scope other sessions are in there too.
        if scope_key == sandbox.session:
            await self.context.gateway.execution.fleet.stop((Place.SANDBOX, scope_key))
            await asyncio.to_thread(_remove_files, self.context.state, scope_key)

    def _scope_key(self, sandbox: Sandbox) -> str:
        return placement.decide(sessions.parse(sandbox.session), self.agent(sandbox)).answer.scope_key or ""

    def home(self, sandbox: Sandbox) -> str:
        """Return the folder of a sandbox's files, where its commands start."""
        around = self.context.gateway.execution.around
        return workspace_inside(self.agent(sandbox), self._scope_key(sandbox), around)

    async def close(self) -> None:
        """End them all."""
        await asyncio.gather(*map(self.kill, list(self._all.values())), *self._work)

    def agent(self, sandbox: Sandbox) -> AgentSettings:
        """Return the settings of the agent whose session it is."""
        settings = self.context.gateway.settings
        return settings.agent(sessions.parse(sandbox.session, default_agent=settings.default_agent).agent)

    async def call(
        self,
        sandbox: Sandbox,
        tool: str,
        args: Mapping[str, Any],
        *,
        gone: Sign | None = None,
        streams: Streams | None = None,
    ) -> ToolResult:
        """Pass a call to the gateway. A sandbox is never the host, whatever the token may do elsewhere."""
        admitted = self.owner_of(sandbox)
        if admitted is None:
            raise Refusal(401, "unauthorized", "the API key of this sandbox is no longer valid")
        asked = CallRequest(
            session=sandbox.session, tool=tool, args=args, sender=admitted[1].sender, host_allowed=False
        )
        return await self.context.call(asked, gone=gone or Sign(), streams=streams)


def _remove_files(state: str, scope_key: str) -> None:
    private_folders.remove(state, lambda kept: kept.scope_key == scope_key)
    forget_snapshots(state, scope_key)
