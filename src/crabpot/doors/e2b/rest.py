"""The REST part of the API: create, connect to, list, look at and kill sandboxes, and say how long they live."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.routing import Route

from crabpot.doors.e2b import fields
from crabpot.doors.e2b.refusals import failure_of, not_offered
from crabpot.doors.e2b.sandboxes import LONGEST_S
from crabpot.doors.http.access.refusals import Refusal
from crabpot.doors.http.access.tokens import digest
from crabpot.doors.http.context import as_json
from crabpot.doors.http.requests import object_of, principal_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from crabpot.doors.e2b.sandboxes import Sandbox, Sandboxes
    from crabpot.doors.http.access.principals import Principal

# Uploads of any kind, stdin that can be closed, no metadata of files: what an SDK may expect of the inside.
ENVD_VERSION = "0.5.7"
_TEMPLATES = ("base", "code-interpreter-v1")
_DEFAULT_S = 300
_MOST_LISTED = 100
_LONGEST_TEXTS = 64 * 1024
_MIB = 1024**2
_NOT_HERE = {
    "network": "rules for the network of one sandbox (sandbox.network of the configuration has them)",
    "volumeMounts": "volumes",
    "mcp": "MCP servers in a sandbox",
    "iam": "workload identities",
}


class Rest:
    """The routes that need an API key."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self.domain = ""

    def routes(self) -> list[Route]:
        """Return the routes, each in both versions of the API."""
        found = []
        for base in ("/sandboxes", "/v2/sandboxes"):
            one = f"{base}/{{id}}"
            found += [
                Route(base, self.create, methods=["POST"]),
                Route(base, self.list, methods=["GET"]),
                Route(one, self.detail, methods=["GET"]),
                Route(one, self.kill, methods=["DELETE"]),
                Route(f"{one}/connect", self.connect, methods=["POST"]),
                Route(f"{one}/timeout", self.timeout, methods=["POST"]),
                Route(f"{one}/{{part:path}}", self.other, methods=["GET", "POST", "PUT", "DELETE"]),
            ]
        return found

    async def create(self, request: Request) -> Response:
        """Create a sandbox, and open it: what cannot be opened is told at once."""
        principal = _calls_tools(request)
        wanted = self._wanted(await object_of(request))
        made = self._sandboxes.add(principal, digest(request.headers["x-api-key"]), wanted)
        refused = self._refused_network(made, wanted)
        if refused is None:
            result = await self._sandboxes.call(made, "fs.stat", {"path": "."})
            refused = failure_of(result)
        if refused is not None:
            await self._sandboxes.kill(made)
            raise refused
        return as_json(self._handle(made), status=201)

    def _wanted(self, body: dict[str, Any]) -> dict[str, Any]:
        template = fields.text(body, "templateID", _TEMPLATES[0])
        if template not in _TEMPLATES:
            raise Refusal(404, "not_found", f"template {template[:64]!a} not found; there are {', '.join(_TEMPLATES)}")
        for name, what in _NOT_HERE.items():
            if body.get(name):
                raise not_offered(what)
        found = {name: fields.texts(body, given) for name, given in (("metadata", "metadata"), ("envs", "envVars"))}
        if sum(len(key) + len(value) for texts in found.values() for key, value in texts.items()) > _LONGEST_TEXTS:
            raise Refusal(400, "invalid", f"metadata and envVars have more than {_LONGEST_TEXTS} characters")
        internet = fields.flag(body, "allow_internet_access", default=True)
        return {"template": template, "timeout": _timeout(body), "internet": internet, **found}

    def _refused_network(self, made: Sandbox, wanted: dict[str, Any]) -> Refusal | None:
        network = self._sandboxes.agent(made).sandbox.network
        if wanted["internet"] or network.name == "none":
            return None
        return Refusal(400, "invalid", 'sandbox.network gives this agent a network; set it to "none" for this token')

    async def list(self, request: Request) -> Response:
        """List the principal's own sandboxes, page by page."""
        query = request.query_params
        states = [state for given in query.getlist("state") for state in given.split(",")]
        wanted = dict(parse_qsl(query.get("metadata", ""), keep_blank_values=True, max_num_fields=100))
        found = [] if states and "running" not in states else self._sandboxes.owned(principal_of(request))
        found = [one for one in found if all(one.metadata.get(key) == value for key, value in wanted.items())]
        limit = min(fields.number(dict(query), "limit", _MOST_LISTED), _MOST_LISTED)
        begin = fields.number(dict(query), "nextToken", 0)
        answer = as_json([self._described(one) for one in found[begin : begin + limit]])
        if limit and begin + limit < len(found):
            answer.headers["x-next-token"] = str(begin + limit)
        return answer

    async def detail(self, request: Request) -> Response:
        """Describe a sandbox."""
        found = self._found(request)
        return as_json({**self._described(found), "envdAccessToken": found.access, "domain": self.domain})

    async def kill(self, request: Request) -> Response:
        """End a sandbox."""
        await self._sandboxes.kill(self._found(request))
        return Response(status_code=204)

    async def connect(self, request: Request) -> Response:
        """Return the handle of a sandbox, which lives at least this long from now."""
        found = self._found(request)
        timeout = _timeout(await object_of(request))
        if datetime.now(UTC).timestamp() + timeout > found.ends:
            self._sandboxes.limit(found, timeout)
        return as_json(self._handle(found))

    async def timeout(self, request: Request) -> Response:
        """Set how long a sandbox lives from now."""
        found = self._found(request)
        self._sandboxes.limit(found, _timeout(await object_of(request)))
        return Response(status_code=204)

    async def other(self, request: Request) -> Response:
        """Refuse what is not offered, of a sandbox that is there."""
        self._found(request)
        raise not_offered(f"{request.method} {request.path_params['part'][:64]!a} of a sandbox")

    def _found(self, request: Request) -> Sandbox:
        return self._sandboxes.find(principal_of(request), request.path_params["id"])

    def _handle(self, sandbox: Sandbox) -> dict[str, Any]:
        return {
            "templateID": sandbox.template,
            "sandboxID": sandbox.id,
            "clientID": "crabpot",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": sandbox.access,
            # Parts of the SDKs show only this one.
            "trafficAccessToken": sandbox.access,
            "domain": self.domain,
        }

    def _described(self, sandbox: Sandbox) -> dict[str, Any]:
        limits = self._sandboxes.agent(sandbox).sandbox.limits
        return {
            "templateID": sandbox.template,
            "sandboxID": sandbox.id,
            "clientID": "crabpot",
            "startedAt": _when(sandbox.started),
            "endAt": _when(sandbox.ends),
            "envdVersion": ENVD_VERSION,
            "cpuCount": max(1, int(limits.cpus)),
            "memoryMB": int(limits.memory) // _MIB,
            "diskSizeMB": int(limits.disk) // _MIB,
            "state": "running",
            "metadata": dict(sandbox.metadata),
        }


def _calls_tools(request: Request) -> Principal:
    principal = principal_of(request)
    if principal.role.value == "observer":
        raise Refusal(403, "forbidden", f"the token {principal.name} is an observer's; sandboxes are for agents")
    return principal


def _timeout(body: dict[str, Any]) -> int:
    return fields.number(body, "timeout", _DEFAULT_S, most=LONGEST_S)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
