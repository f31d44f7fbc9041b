"""The application behind the HTTP door: the routes, and one format for every refusal."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from crabpot.doors.http.access.refusals import Refusal, bad_request
from crabpot.doors.http.routes import calls, dashboard, openapi, operations, review, snapshots
from crabpot.doors.http.routes.calls import Calling
from crabpot.doors.http.routes.direct import Direct
from crabpot.doors.http.routes.operations import Operating
from crabpot.doors.inflight import ClientGone
from crabpot.errors import CrabpotError

if TYPE_CHECKING:
    from starlette.requests import Request

    from crabpot.doors.http.context import Context
    from crabpot.doors.http.routes.mcp_on_demand import McpOnDemand


def complete(context: Context, mcp: McpOnDemand) -> Direct:
    """Return all that answers requests: the application with MCP, and the short way of plain ones."""
    calling, operating = Calling(context), Operating(context)
    app = application(context, calling, operating)
    app.router.routes.append(mcp.route())
    return Direct(app, calling, operating)


def application(context: Context, calling: Calling, operating: Operating) -> FastAPI:
    """Return the application. FastAPI's documentation page loads scripts from elsewhere, so it is off."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    # Onto the application's own router: the search for a path's other methods does not see included routers.
    calls.add_routes(app.router, calling)
    operations.add_routes(app.router, context, operating)
    review.add_routes(app.router, context)
    snapshots.add_routes(app.router, context)
    app.router.routes += dashboard.routes()
    app.openapi = lambda: openapi.described(app)  # type: ignore[method-assign]
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    return app


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return bad_request(said).response()


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return Refusal(error.status_code, "not_found", "no such path; see /openapi.json").response()
    # A path may be several routes, one for each of its methods.
    found = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    methods = sorted({method for route in found for method in getattr(route, "methods", None) or ()})
    message = f"method {request.method} not allowed; use {', '.join(methods)}"
    return Refusal(error.status_code, "wrong_method", message, allow=", ".join(methods)).response()


async def _failed(_request: Request, error: Exception) -> Response:
    return Refusal(500, "internal", str(error)).response()


async def _gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=499)  # The client is gone: nobody reads this.


_HANDLERS: dict[type[Exception], Any] = {
    Refusal: _refused,
    RequestValidationError: _invalid,
    HTTPException: _no_route,
    CrabpotError: _failed,
    ClientGone: _gone,
    ClientDisconnect: _gone,
}
