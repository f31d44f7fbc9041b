"""Who a request of the E2B API comes from: an API key for REST, a sandbox's own secret for what is in it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from crabpot.doors.e2b.refusals import as_api, as_connect, sandbox_not_found
from crabpot.doors.http.access.refusals import Refusal

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

    from crabpot.doors.e2b.sandboxes import Sandbox, Sandboxes
    from crabpot.doors.http.access.principals import Principal
    from crabpot.doors.http.access.tokens import Tokens

_RPC = ("/process.Process/", "/filesystem.Filesystem/")
_INSIDE = (*_RPC, "/files", "/health", "/execute", "/contexts")
_OPERATIONS = {"GET": "read", "HEAD": "read", "POST": "write"}


@dataclass(frozen=True, slots=True, kw_only=True)
class E2bEntry:
    """Knows a principal by its API key, and a program in a sandbox by that sandbox's secret."""

    tokens: Tokens
    sandboxes: Sandboxes

    @property
    def open_paths(self) -> frozenset[str]:
        """Nothing is open."""
        return frozenset()

    def principal(self, scope: Scope, headers: dict[str, str]) -> Principal | None:
        """Return whose a request is; for what is in a sandbox, note which."""
        if not scope["path"].startswith(_INSIDE):
            return self.tokens.find(headers.get("x-api-key", ""))
        found = self._inside(scope, headers)
        if found is None:
            return None
        scope["state"]["sandbox"], principal = found
        return principal

    def _inside(self, scope: Scope, headers: dict[str, str]) -> tuple[Sandbox, Principal] | None:
        identity = headers.get("e2b-sandbox-id")
        access = headers.get("x-access-token", headers.get("e2b-traffic-access-token"))
        if identity is not None and access is not None:
            return self.sandboxes.admitted(identity, access)
        return self._signed(scope) if scope["path"] == "/files" else None

    def _signed(self, scope: Scope) -> tuple[Sandbox, Principal] | None:
        """Return the sandbox whose secret signed an address of a file, which names no sandbox."""
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=16))
        given, expires = query.get("signature"), query.get("signature_expiration")
        operation = _OPERATIONS.get(scope["method"])
        if given is None or operation is None:
            return None
        if expires is not None and not (expires.isascii() and expires.isdigit() and int(expires) > time.time()):
            return None
        said = (query.get("path", ""), operation, query.get("username", ""))

        def signed(sandbox: Sandbox) -> bool:
            text = ":".join((*said, sandbox.access, *([] if expires is None else [expires])))
            digest = base64.b64encode(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()).decode()
            return hmac.compare_digest(f"v1_{digest.rstrip('=')}".encode(), given.encode("utf-8", "surrogatepass"))

        found = self.sandboxes.by(signed)
        return None if found is None else self.sandboxes.owner_of(found)

    def stranger(self, scope: Scope) -> Refusal:
        """Ask for an API key; a sandbox whose secret is not shown is one that does not exist."""
        if scope["path"].startswith(_INSIDE):
            return sandbox_not_found()
        return Refusal(401, "unauthorized", "an API key is required: X-API-Key; eval $(crabpot e2b --print-env)")

    def uploads(self, scope: Scope) -> bool:
        """Return whether it is a file, or input of a process as it comes."""
        return scope["method"] == "POST" and scope["path"] in ("/files", "/process.Process/StreamInput")

    def refused(self, refusal: Refusal, scope: Scope) -> Response:
        """Return a refusal as the SDKs read it."""
        return as_connect(refusal) if scope["path"].startswith(_RPC) else as_api(refusal)
