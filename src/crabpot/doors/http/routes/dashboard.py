"""The dashboard: one page with its style and script, served from this package with a strict content policy.

The page itself contains no data: everything on it comes from the operators' routes, which need a token.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES = {"/": "dashboard.html", **{f"/{name}": name for name in ("dashboard.css", "dashboard.js", "dashboard.svg")}}
PATHS = tuple(_FILES)

# Only this server's own files are loaded or run, nothing is framed, and nothing is sent elsewhere.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), clipboard-read=()",
    "cache-control": "no-cache",
}


def routes() -> list[Route]:
    """Return the routes of the page; they are not part of the API."""
    return [Route(path, _send, methods=["GET"]) for path in PATHS]


async def _send(request: Request) -> Response:
    name = _FILES[request.url.path]
    content = files("crabpot.doors.http").joinpath("page", name).read_bytes()
    kind = f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8"
    return Response(content, headers={**_HEADERS, "content-type": kind})
